// The samples one by one of per-sample evaluation behind plain functions.
#pragma once

namespace bench::samples {

/// 64 samples through a perceptron, the same with 1 to 8 rows each, attention made of products, a GRU's steps or LeNet, and
/// through layers of the first and the GRU: each by itself in one plan, and as a batch made by hand.
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
