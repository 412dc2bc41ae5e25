module lamina:gradcheck.impl;
import :context;
import :core;
import :dtype;
import :gradcheck;
import :gradient;
import :model;
import :op;
import :op.elementwise;
import :op.reduce;
import :passes;
import :parameter;
import :program;
import :random;
import :session;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

// ---- differences ----------------------------------------------------------------------------------------------------

central_differences::central_differences(std::shared_ptr<const program> p, std::vector<any_tensor> inputs, double step)
    : program_(std::move(p)), inputs_(std::move(inputs)), run_(program_), step_(step) {
  text t;
  if (program_->outputs().size() != 1)
    detail::raise(error_kind::value,
                  t << "central_differences: the program has " << program_->outputs().size() << " outputs; expected 1");
  if (const auto& of = program_->type(program_->outputs()[0].value); of != tensor_type{dtype::float64, {}})
    detail::raise(of.element == dtype::float64 ? error_kind::shape : error_kind::type,
                  t << "central_differences: the output is " << of << "; expected float64[]");
  for (auto& x : inputs_) {
    x = x.copy();  // the caller's tensors are unchanged
    extents_.push_back(x.shape());
    data_.push_back(x.data());
  }
}

template <class T> double central_differences::slope(T* x) {
  const T middle = *x;
  auto at = [&](double steps) {
    *x = static_cast<T>(static_cast<double>(middle) + steps * step_);
    run_.run(extents_, data_, [this](std::size_t, const tensor_type&) -> void* { return &result_; });
    return result_;
  };
  const double near = at(1) - at(-1), far = at(2) - at(-2);
  *x = middle;
  return (8 * near - far) / (12 * step_);
}

double central_differences::at(std::size_t input, std::size_t element) {
  auto& x = inputs_[input];
  if (x.element() == dtype::float32) return slope(reinterpret_cast<float*>(x.mutable_data()) + element);
  text t;
  if (x.element() != dtype::float64)
    detail::raise(error_kind::type,
                  t << "central_differences: input " << input << " is " << x.type() << "; expected float64 or float32");
  return slope(reinterpret_cast<double*>(x.mutable_data()) + element);
}

// ---- the check ------------------------------------------------------------------------------------------------------

namespace {

bool real(const tensor_type& t) { return t.element == dtype::float64 || t.element == dtype::float32; }
bool any_single(const std::vector<any_tensor>& inputs) {
  return std::any_of(inputs.begin(), inputs.end(), [](const any_tensor& x) { return x.element() == dtype::float32; });
}

// Completes options that depend on the operands.
gradcheck_options complete(gradcheck_options o, const std::vector<any_tensor>& inputs) {
  for (const auto& [name, number] : {std::pair{"tolerance", o.tolerance}, std::pair{"step", o.step}}) {
    text t;
    if (!(number >= 0) || !std::isfinite(number))
      detail::raise(error_kind::value,
                    t << "gradcheck: `" << name << "` is " << number << "; expected a finite number >= 0");
  }
  const bool single = any_single(inputs);
  if (o.tolerance == 0) o.tolerance = single ? 2e-3 : 1e-6;
  if (o.step == 0) o.step = single ? 1e-2 : 2e-4;
  return o;
}

// Sum of a function's result elements, each times its own factor.
value weighted_sum(const std::vector<value>& results, std::int64_t seed) {
  value sum;
  int site = 0;
  for (const auto& r : results) {
    if (!real(r.type())) continue;
    any_tensor factors(tensor_type{dtype::float64, r.shape()});
    const philox numbers(seed, site++);
    auto* to = reinterpret_cast<double*>(factors.mutable_data());
    for (std::int64_t i = 0; i < r.shape().size(); ++i)
      to[i] = 0.5 + numbers.uniform<double>(static_cast<std::uint64_t>(i));
    const value wide = r.type().element == dtype::float64 ? r : value(cast<double>(r));
    const value part = reduce_sum(wide * r.owner().constant(factors));
    sum = sum.empty() ? part : value(sum + part);
  }
  if (sum.empty()) detail::raise(error_kind::value, "gradcheck: no result is float64 or float32");
  return sum;
}

// The function to differentiate, and the names of its inputs.
struct subject {
  const detail::gradcheck_function& f;
  const std::vector<any_tensor>& inputs;
  const std::vector<char>& differentiated;  // inputs to differentiate by
  const std::vector<std::string>& names;
};

struct traced_subject {
  std::shared_ptr<program> p = std::make_shared<program>();
  std::vector<value> inputs, differentiated;
  value sum;
};
traced_subject traced_of(const subject& s, std::int64_t seed) {
  traced_subject t;
  for (std::size_t i = 0; i < s.inputs.size(); ++i) {
    t.inputs.push_back(t.p->input(s.names[i], s.inputs[i].type()));
    if (s.differentiated[i]) t.differentiated.push_back(t.inputs.back());
  }
  t.sum = weighted_sum(s.f(t.inputs), seed);
  return t;
}

std::vector<any_tensor> analytic_of(const subject& s, std::int64_t seed) {
  auto t = traced_of(s, seed);
  for (const auto& g : gradients(t.sum, view<const value>(t.differentiated))) t.p->output("gradient", g);
  return session(t.p).run(s.inputs);
}

std::vector<double> numbers_of(const any_tensor& t) {
  std::vector<double> all;
  auto take = [&](const auto& elements) { all.assign(elements.begin(), elements.end()); };
  if (t.element() == dtype::float64) take(t.elements<double>());
  else take(t.elements<float>());
  return all;
}

std::string place_of(const std::string& name, const shape& dims, std::int64_t element) {
  text t;
  t << name;
  for (int i = 0; i < dims.rank; ++i) {
    const std::int64_t inner = dims.size(i + 1, dims.rank);
    t << (i ? ", " : " at [") << element / inner;
    element %= inner;
  }
  if (dims.rank > 0) t << "]";
  return t.string();
}

gradcheck_report compare(const subject& s, const gradcheck_options& o, std::string_view what) {
  const auto analytic = analytic_of(s, o.seed);
  auto t = traced_of(s, o.seed);
  t.p->output("sum", t.sum);
  central_differences numeric(t.p, s.inputs, o.step);
  gradcheck_report worst;
  std::size_t k = 0;
  for (std::size_t i = 0; i < s.inputs.size(); ++i) {
    if (!s.differentiated[i]) continue;
    const auto found = numbers_of(analytic[k++]);
    for (std::size_t e = 0; e < found.size(); ++e) {
      const double by_differences = numeric.at(i, e);
      double error =
          std::abs(found[e] - by_differences) / std::max({std::abs(found[e]), std::abs(by_differences), 1e-2});
      if (std::isnan(error)) error = std::numeric_limits<double>::infinity();
      if (error > worst.error || worst.where.empty())
        worst = {error,
                 found[e],
                 by_differences,
                 place_of(s.names[i], s.inputs[i].shape(), static_cast<std::int64_t>(e)),
                 {}};
    }
  }
  if (worst.error <= o.tolerance) return worst;
  text m;
  m << "gradcheck: " << worst.where << ": " << what << " is " << worst.analytic << " and differences give "
    << worst.numeric << "; the error of " << worst.error << " is above the tolerance of " << o.tolerance;
  worst.message = m.string();
  return worst;
}

gradcheck_report check_subject(const subject& s, const gradcheck_options& o) {
  auto first = compare(s, o, "the gradient");
  if (!first || !o.second_order) return first;
  // Treats the gradients of the sum of sin(y) as results of a function; the sine gives linear functions a nonzero
  // second derivative.
  const detail::gradcheck_function slopes = [&](view<const value> in) {
    value sum;
    for (const auto& y : s.f(in)) {
      if (!real(y.type())) continue;
      const value part = reduce_sum(sin(y.type().element == dtype::float64 ? y : value(cast<double>(y))));
      sum = sum.empty() ? part : value(sum + part);
    }
    std::vector<value> of;
    for (std::size_t i = 0; i < in.size(); ++i)
      if (s.differentiated[i]) of.push_back(in[i]);
    return gradients(sum, view<const value>(of));
  };
  auto second = compare({slopes, s.inputs, s.differentiated, s.names}, o, "the second derivative");
  return !second || second.error > first.error ? second : first;
}

}  // namespace

gradcheck_report detail::check_gradients(const gradcheck_function& f, std::vector<any_tensor> inputs,
                                         const gradcheck_options& given) {
  const auto o = complete(given, inputs);
  std::vector<char> differentiated;
  std::vector<std::string> names;
  for (const auto& x : inputs) {
    differentiated.push_back(real(x.type()));
    names.push_back("input " + std::to_string(names.size()));
  }
  if (std::find(differentiated.begin(), differentiated.end(), 1) == differentiated.end())
    raise(error_kind::value, "gradcheck: no operand is float64 or float32");
  return check_subject({f, inputs, differentiated, names}, o);
}

gradcheck_report detail::check_layer_gradients(const gradcheck_layer& f, std::vector<any_tensor> inputs,
                                               const gradcheck_options& given) {
  const auto o = complete(given, inputs);
  const dtype element = any_single(inputs) ? dtype::float32 : dtype::float64;
  std::vector<char> differentiated;
  std::vector<std::string> names;
  for (const auto& x : inputs) {
    differentiated.push_back(real(x.type()));
    names.push_back("input " + std::to_string(names.size()));
  }
  const std::size_t operands = inputs.size();
  // A first trace collects the states of the layer, which become inputs like its operands.
  traced_leaves leaves;
  {
    program p;
    parameter_store none;
    std::vector<value> in;
    for (std::size_t i = 0; i < operands; ++i) in.push_back(p.input(names[i], inputs[i].type()));
    trace_walk walk{p, none, o.seed, element, o.training, false, nullptr, &leaves};
    (void)f(trace_scope(walk), in);
  }
  parameter_store begin;
  for (const auto& l : leaves.all) {
    if (l.role == state_role::generator) {
      any_tensor state(l.type);
      std::memcpy(state.mutable_data(), &o.seed, sizeof o.seed);
      inputs.push_back(state);
    } else inputs.push_back(begin.make(l.path, l.type, l.how, o.seed, l.role, l.trainable).value());
    differentiated.push_back(l.role == state_role::parameter && l.trainable && real(l.type));
    names.push_back((l.role == state_role::parameter ? "parameter `" : "state `") + l.path + "`");
  }
  const gradcheck_function all = [&](view<const value> in) {
    program& p = in[0].owner();
    parameter_store none;
    traced_leaves again = leaves;
    again.assigned.clear();
    for (std::size_t i = 0; i < again.all.size(); ++i) again.all[i].at = in[operands + i];
    trace_walk walk{p, none, o.seed, element, o.training, false, nullptr, &again};
    return f(trace_scope(walk), in.subview(0, operands));
  };
  if (std::find(differentiated.begin(), differentiated.end(), 1) == differentiated.end())
    raise(error_kind::value, "gradcheck: neither an operand nor a parameter is float64 or float32");
  return check_subject({all, inputs, differentiated, names}, o);
}

}  // namespace lamina
