// All kernel families, for the planner.
#pragma once
#include "bfloat.h"
#include "cell.h"
#include "conv.h"
#include "elementwise.h"
#include "gemm.h"
#include "index.h"
#include "quantized.h"
#include "reduce.h"
#include "sample.h"
#include "transformer.h"
