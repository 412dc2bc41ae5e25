module lamina:protocol.collector.impl;
import :context;
import :core;
import :dtype;
import :expression;
import :expression.data;
import :expression.dynamic;
import :parameter;
import :protocol.call;
import :protocol.collector;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

void gradient_collector::add(std::shared_ptr<parameter> weight, dtype element, detail::dynamic_pointer gradient) {
  const tensor_type given{element, gradient->shape()};
  if (given != weight->value().type()) {
    text t;
    t << "gradient collector: parameter `" << weight->name() << "` is " << weight->value().type()
      << " and its gradient " << given;
    detail::raise(element == weight->value().element() ? error_kind::shape : error_kind::type, t);
  }
  for (auto& e : all_)
    if (e.weight == weight) return e.parts.push_back(std::move(gradient));
  if (contains(weight->name())) {
    text t;
    t << "gradient collector: two parameters are named `" << weight->name()
      << "`; give their layers names of their own";
    detail::raise(error_kind::value, t);
  }
  all_.push_back({std::move(weight), {std::move(gradient)}});
}

bool gradient_collector::contains(std::string_view name) const {
  for (const auto& e : all_)
    if (e.weight->name() == name) return true;
  return false;
}
std::vector<std::string> gradient_collector::names() const {
  std::vector<std::string> names;
  for (const auto& e : all_) names.push_back(e.weight->name());
  return names;
}

const gradient_collector::entry& gradient_collector::entry_of(std::string_view name) const {
  if (all_.empty())
    detail::raise(error_kind::state,
                  "gradient collector: nothing was collected; run a backward pass and collect first");
  for (const auto& e : all_)
    if (e.weight->name() == name) return e;
  text t;
  t << "gradient collector: no gradient of `" << name << "`; available:";
  for (std::size_t i = 0; i < all_.size() && i < 12; ++i) t << (i ? ", `" : " `") << all_[i].weight->name() << "`";
  if (all_.size() > 12) t << ", ... (" << all_.size() << ")";
  detail::raise(error_kind::value, t);
}
detail::dynamic_pointer gradient_collector::sum(std::string_view name, const tensor_type& expected) const {
  const auto& e = entry_of(name);
  const auto& is = e.weight->value().type();
  if (is.element != expected.element || !fits(expected.dims, is.dims)) {
    text t;
    t << "gradient collector: parameter `" << name << "` is " << is << "; its gradient is requested as " << expected;
    detail::raise(is.element == expected.element ? error_kind::shape : error_kind::type, t);
  }
  return detail::sum_of(e.parts);
}

void gradient_collector::each(const std::function<void(parameter&, const any_tensor&)>& f, context& where) const {
  if (all_.empty())
    detail::raise(error_kind::state,
                  "gradient collector: nothing was collected; run a backward pass and collect first");
  std::vector<detail::dynamic_pointer> sums;
  for (const auto& e : all_) sums.push_back(detail::sum_of(e.parts));
  auto gradients = detail::evaluate_all(sums, where);
  for (std::size_t i = 0; i < all_.size(); ++i) f(*all_[i].weight, gradients[i]);
}

}  // namespace lamina
