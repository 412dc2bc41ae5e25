// Fourier transforms, windows, filter banks, products in the notation of Einstein, determinants, and losses.
module lamina.onnx:signal.impl;
import :convert;
import :message;
import lamina;
import lamina.std;

namespace lamina::onnx {

namespace {

std::optional<std::int64_t> length_of(node_call& c, std::size_t i) {
  if (!c.has(i)) return {};
  const auto all = c.integers(i, "length");
  if (all.size() != 1) c.fail("its length is ", all.size(), " numbers");
  return all[0];
}

// The axis is an attribute before opset 20.
void dft(node_call& c) {
  const value x = c.number(0);
  std::int64_t axis = c.opset < 20 ? c.integer("axis", 1) : -2;
  if (c.opset >= 20 && c.has(2)) axis = c.integers(2, "axis").at(0);
  c.give_like(0, lamina::dft(x, {.axis = c.axis(axis, x.shape().rank),
                                 .length = length_of(c, 1),
                                 .inverse = c.flag("inverse"),
                                 .onesided = c.flag("onesided")}));
}
void stft(node_call& c) {
  const auto step = length_of(c, 1);
  if (!step) c.fail("operand 1, the step, is missing");
  std::optional<value> window;
  if (c.has(2)) window = c.number(2);
  c.give_like(0, lamina::stft(c.number(0), window,
                              {.step = *step, .length = length_of(c, 3), .onesided = c.flag("onesided", true)}));
}
template <auto F> void window(node_call& c) {
  const dtype e = c.element("output_datatype", dtype::float32);
  const bool direct = is_real(e);
  c.give(0, c.cast_to(F(c[0], c.flag("periodic", true), direct ? e : dtype::float64, origin{}), e));
}
void mel_weights(node_call& c) {
  mel_attributes a;
  a.bands = c.integers(0, "number of bands").at(0);
  a.length = c.integers(1, "length").at(0);
  a.rate = c.integers(2, "rate").at(0);
  a.low = c.known_number(3, "lower edge", 0);
  a.high = c.known_number(4, "upper edge", 0);
  c.give(0, lamina::mel_weight_matrix(a, c.element("output_datatype", dtype::float32)));
}

void einsum(node_call& c) {
  std::vector<value> operands;
  for (std::size_t i = 0; i < c.size(); ++i) operands.push_back(c.number(i));
  if (operands.empty()) c.fail("it has no operands");
  c.give_like(0, lamina::einsum(c.string("equation", ""), operands));
}
void det(node_call& c) { c.give_like(0, lamina::det(c.number(0))); }

weighted_loss_attributes loss_attributes(node_call& c) {
  weighted_loss_attributes a;
  const std::string how = c.string("reduction", "mean");
  if (how == "none") a.reduction = loss_reduction::none;
  else if (how == "sum") a.reduction = loss_reduction::sum;
  else if (how != "mean") c.fail("attribute `reduction` is `", printable(how), "`; none, sum and mean are known");
  if (c.has_attribute("ignore_index")) a.ignore_index = c.integer("ignore_index");
  return a;
}
std::optional<value> weights_of(node_call& c) { return c.has(2) ? std::optional<value>(c.number(2)) : std::nullopt; }
void likelihood(node_call& c) {
  c.give_like(0, lamina::negative_log_likelihood(c.number(0), c[1], weights_of(c), loss_attributes(c)));
}
void cross_entropy(node_call& c) {
  const auto found = lamina::softmax_cross_entropy(c.number(0), c[1], weights_of(c), loss_attributes(c));
  c.give_like(0, found.loss);
  c.give_like(1, found.log_probabilities);
}

constexpr converter_entry entries[] = {
    {"BlackmanWindow", 17, window<lamina::blackman_window>},
    {"DFT", 17, dft},
    {"Det", 11, det},
    {"Einsum", 12, einsum},
    {"HammingWindow", 17, window<lamina::hamming_window>},
    {"HannWindow", 17, window<lamina::hann_window>},
    {"MelWeightMatrix", 17, mel_weights},
    {"NegativeLogLikelihoodLoss", 12, likelihood},
    {"STFT", 17, stft},
    {"SoftmaxCrossEntropyLoss", 12, cross_entropy},
};

}  // namespace

converter_list signal_converters() { return entries; }

}  // namespace lamina::onnx
