// The nets of the per-sample evaluation benchmark behind plain functions.
#pragma once

namespace bench::samples {

/// 64 samples through a perceptron, the perceptron with 1 to 8 rows per sample (`ragged`), attention written as
/// products, GRU steps, LeNet, and the perceptron and GRU as layers. `_alone`: one by one in one plan; `_batch`: a
/// manual batch.
void perceptron_alone();
void perceptron_batch();
void ragged_alone();
void ragged_batch();
void attention_alone();
void attention_batch();
void gru_alone();
void gru_batch();
void lenet_alone();
void lenet_batch();
void perceptron_layer_alone();
void perceptron_layer_batch();
void gru_layer_alone();
void gru_layer_batch();

}  // namespace bench::samples
