// Elementwise part of a recurrent step, after the matrix products of an LSTM or a GRU, forward and backward.
#pragma once
#include "kernels.h"

namespace lamina::kernels {

/// Contiguous rows: gates [rows, 4 hidden] in the order i f g o, the others [rows, hidden].
/// Forward: next = s(f) cell + s(i) tanh(g), out = s(o) tanh(next), s the logistic function.
/// Backward: from gates, cell, next and the gradients of out and next, computes the gradients of gates and cell.
struct lstm_args {
  const void *gates, *cell, *next, *out_gradient, *next_gradient;
  void *out, *next_out, *gates_gradient, *cell_gradient;
  long rows, hidden;
};
/// Contiguous rows: input and state gates [rows, 3 hidden] in the order r z n, the others [rows, hidden].
/// Forward: r = s(xr + hr), z = s(xz + hz), n = tanh(xn + r hn), out = n + z (state - n).
struct gru_args {
  const void *x, *h, *state, *out_gradient;
  void *out, *x_gradient, *h_gradient, *state_gradient;
  long rows, hidden;
};

/// The forward kernels of a cell.
struct cell_kernels {
  kernel any[2];              // [f32, f64]
  kernel row, registers_row;  // f32: a single row; a single row of a multiple of `lanes` elements
  long lanes;
  kernel of(int type, long rows, long hidden) const {
    return type != 0 || rows != 1 ? any[type] : hidden % lanes == 0 ? registers_row : row;
  }
};
struct cell_functions {
  cell_kernels lstm, gru;
  kernel lstm_grad[2], gru_grad[2];  // [f32, f64]
};
LAMINA_FAMILY(cell_functions, cell);

}  // namespace lamina::kernels
