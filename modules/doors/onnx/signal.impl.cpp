// Fourier transforms, windows, filter banks, Einsum, determinants, and losses.
module lamina.onnx:signal.impl;
import :convert;
import :message;
import lamina;
import lamina.std;

namespace lamina::onnx {

namespace {

std::int64_t number_of(node_call& c, std::size_t i, std::string_view what) {
  const auto all = c.integers(i, what);
  if (all.size() != 1) c.fail("its ", what, " has ", all.size(), " numbers; expected 1");
  return all[0];
}
std::optional<std::int64_t> length_of(node_call& c, std::size_t i) {
  if (!c.has(i)) return {};
  return number_of(c, i, "length");
}
value whole_number(node_call& c, std::size_t i) { return c.cast_to(c[i], dtype::int64); }

// The axis is an attribute before opset 20, an operand since.
void dft(node_call& c) {
  const value x = c.number(0);
  const std::int64_t axis = c.opset < 20 ? c.integer("axis", 1) : -2;
  const bool inverse = c.flag("inverse"), onesided = c.flag("onesided");
  const bool computed = (c.opset >= 20 && c.has(2) && !c.known_integers(2)) || (c.has(1) && !c.known_integers(1));
  if (computed) {
    const value along =
        c.opset >= 20 && c.has(2) ? whole_number(c, 2) : c.constant(static_cast<double>(axis), dtype::int64);
    std::optional<value> length;
    if (c.has(1)) length = whole_number(c, 1);
    return c.give_like(0, lamina::dft(x, along, length, {inverse, onesided}));
  }
  const std::int64_t known = c.opset >= 20 && c.has(2) ? number_of(c, 2, "axis") : axis;
  c.give_like(0, lamina::dft(x, {.axis = c.axis(known, x.shape().rank),
                                 .length = length_of(c, 1),
                                 .inverse = inverse,
                                 .onesided = onesided}));
}
void stft(node_call& c) {
  std::optional<value> window;
  if (c.has(2)) window = c.number(2);
  const bool onesided = c.flag("onesided", true);
  if (!c.known_integers(1) || (c.has(3) && !c.known_integers(3))) {
    std::optional<value> length;
    if (c.has(3)) length = whole_number(c, 3);
    return c.give_like(0, lamina::stft(c.number(0), whole_number(c, 1), length, window, {onesided}));
  }
  c.give_like(0, lamina::stft(c.number(0), window,
                              {.step = number_of(c, 1, "step"), .length = length_of(c, 3), .onesided = onesided}));
}
template <auto F> void window(node_call& c) {
  const dtype e = c.element("output_datatype", dtype::float32);
  const bool direct = is_real(e);
  c.give(0, c.cast_to(F(c[0], c.flag("periodic", true), direct ? e : dtype::float64, origin{}), e));
}
void mel_weights(node_call& c) {
  const dtype e = c.element("output_datatype", dtype::float32);
  const auto edge = [&](std::size_t i) { return c.cast_to(c[i], dtype::float32); };
  c.give(0, c.cast_to(lamina::mel_weight_matrix(whole_number(c, 0), whole_number(c, 1), whole_number(c, 2), edge(3),
                                                edge(4), is_floating(e) ? e : dtype::float32),
                      e));
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
  else if (how != "mean") c.fail("attribute `reduction` is `", printable(how), "`; expected none, sum or mean");
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
