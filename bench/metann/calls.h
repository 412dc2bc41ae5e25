// The operations of MetaNN's benchmark behind plain functions.
#pragma once

namespace bench::metann {

void dot_512();
void add_million();
void transpose_million();
void evaluate_tiny();

}  // namespace bench::metann
