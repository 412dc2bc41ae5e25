module lamina:host.impl;
import :any_value;
import :core;
import :dtype;
import :host;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

const any_value& host_call::operator()(std::size_t i) const {
  if (i >= operands_.size()) detail::no_such_part(of_.op->name, "run", "operand", i, operands_.size());
  return operands_[i];
}
void host_call::result(std::size_t i, any_value v) {
  if (i >= results_.size()) detail::no_such_part(of_.op->name, "run", "result", i, results_.size());
  results_[i] = std::move(v);
}
std::int64_t host_call::number(std::size_t i) const {
  const any_tensor& t = tensor(i);
  text why;
  if (t.shape().size() != 1)
    fail(error_kind::value, why << "operand " << i << " is " << t.type() << "; expected one element");
  return with_type(t.element(), [&]<class T>() -> std::int64_t {
    if constexpr (std::is_integral_v<T>) return static_cast<std::int64_t>(t.elements<T>()[0]);
    else fail(error_kind::type, why << "operand " << i << " is " << t.type() << "; expected an integer or bool");
  });
}
void host_call::fail(error_kind kind, const text& why) const {
  text t;
  if (!of_.path.empty()) t << of_.path << ": ";
  detail::raise(kind, t << of_.op->name << ": " << why);
}

}  // namespace lamina
