// Optimizer step operators, and gradients.
module lamina.onnx:training.impl;
import :convert;
import :message;
import :scope;
import lamina;
import lamina.std;

namespace lamina::onnx {

namespace {

// Operands after rate and count: the parts of each tensor, grouped by part, first parts first. Results have the same
// order.
struct optimizer_call {
  value rate{}, count{};
  std::size_t tensors = 0;
};
optimizer_call optimizer_of(node_call& c, std::size_t parts) {
  const std::size_t given = c.size() < 2 ? 0 : c.size() - 2;
  if (given == 0 || given % parts)
    c.fail("it has ", c.size(), " operands; expected 2, and ", parts, " for each tensor");
  return {lamina::reshape(c.number(0), shape{}), lamina::reshape(c[1], shape{}), given / parts};
}

void adagrad(node_call& c) {
  const auto o = optimizer_of(c, 3);
  const double norm = c.real("norm_coefficient", 0), decay = c.real("decay_factor", 0), epsilon = c.real("epsilon", 0);
  for (std::size_t i = 0; i < o.tensors; ++i) {
    const value x = c.number(2 + i), g = c.number(2 + o.tensors + i), h = c.number(2 + 2 * o.tensors + i);
    const dtype e = x.type().element;
    const value rate = c.cast_to(o.rate, e) / (c.cast_to(o.count, e) * decay + 1);
    const value slope = x * norm + g, squares = h + slope * slope;
    c.give_like(i, x - rate * slope / (lamina::sqrt(squares) + epsilon), 2 + i);
    c.give_like(o.tensors + i, squares, 2 + i);
  }
}

void adam(node_call& c) {
  const auto o = optimizer_of(c, 4);
  const double alpha = c.real("alpha", 0.9), beta = c.real("beta", 0.999), epsilon = c.real("epsilon", 0),
               norm = c.real("norm_coefficient", 0), after = c.real("norm_coefficient_post", 0);
  for (std::size_t i = 0; i < o.tensors; ++i) {
    const auto part = [&](std::size_t k) { return c.number(2 + k * o.tensors + i); };
    const value x = part(0), g = part(1);
    const dtype e = x.type().element;
    const value slope = x * norm + g;
    const value mean = part(2) * alpha + slope * (1 - alpha), squares = part(3) * beta + slope * slope * (1 - beta);
    // No bias correction at step 0.
    const value step = c.cast_to(o.count, dtype::float64), rate = c.cast_to(o.rate, dtype::float64);
    const value corrected = rate * lamina::sqrt(1 - lamina::pow(c.constant(beta, dtype::float64), step)) /
                            (1 - lamina::pow(c.constant(alpha, dtype::float64), step));
    const value factor = c.cast_to(lamina::where(step > 0, corrected, rate), e);
    c.give_like(i, (x - factor * (mean / (lamina::sqrt(squares) + epsilon))) * (1 - after), 2 + i);
    c.give_like(o.tensors + i, mean, 2 + i);
    c.give_like(2 * o.tensors + i, squares, 2 + i);
  }
}

void momentum(node_call& c) {
  const auto o = optimizer_of(c, 3);
  const double alpha = c.real("alpha", 0), beta = c.real("beta", 0), norm = c.real("norm_coefficient", 0);
  const std::string mode = c.string("mode", "standard");
  if (mode != "standard" && mode != "nesterov") c.fail("unknown `mode` `", printable(mode), "`");
  for (std::size_t i = 0; i < o.tensors; ++i) {
    const value x = c.number(2 + i), g = c.number(2 + o.tensors + i), v = c.number(2 + 2 * o.tensors + i);
    const dtype e = x.type().element;
    const value slope = x * norm + g;
    const value share = lamina::where(o.count > 0, c.constant(beta, e), c.constant(1.0, e));
    const value next = v * alpha + share * slope;
    c.give_like(i, x - c.cast_to(o.rate, e) * (mode == "nesterov" ? value(slope + next * alpha) : next), 2 + i);
    c.give_like(o.tensors + i, next, 2 + i);
  }
}

// Gradient of an already computed value with respect to values that it depends on.
void gradient(node_call& c) {
  const auto xs = c.strings("xs");
  const std::string of = c.string("y", "");
  known_value* y = c.around.find(of);
  if (!y) c.fail("it differentiates `", printable(of), "`, which no earlier node defines");
  if (xs.empty() || xs.size() > c.size()) c.fail("`xs` has ", xs.size(), " names, but it has ", c.size(), " operands");
  std::vector<value> with_respect_to;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    known_value* x = c.around.find(xs[i]);
    if (!x || c.around.value_of(*x).id() != c[i].id())
      c.unsupported("its operand is not the value `", printable(xs[i]), "` of `xs`");
    with_respect_to.push_back(c[i]);
  }
  const auto made = lamina::gradients(c.around.value_of(*y), view<const value>(with_respect_to));
  for (std::size_t i = 0; i < made.size(); ++i) c.give(i, made[i]);
}

constexpr converter_entry entries[] = {
    {"Adagrad", 1, adagrad},
    {"Adam", 1, adam},
    {"Gradient", 1, gradient, false},
    {"Momentum", 1, momentum},
};

}  // namespace

converter_list training_converters() { return entries; }

}  // namespace lamina::onnx
