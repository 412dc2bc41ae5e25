// Rewrites a program with its products in int8.
module lamina:quantize.impl;
import :core;
import :dtype;
import :op;
import :op.elementwise;
import :op.linear;
import :op.nn;
import :op.quantized;
import :op.reduce;
import :op.view;
import :parameter;
import :program;
import :quantize;
import :quantize.products;
import :rewriter;
import :session;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace {

using detail::mean_site;
using detail::product_site;

// A quantized value with its scale and zero point.
struct quantized_value {
  value q;
  quantization_numbers numbers;
};

class quantizing {
 public:
  quantizing(detail::product_finder& found, const quantization_profile& ranges, const quantization_options& o)
      : found_(found), ranges_(ranges), options_(o), made_(std::make_shared<program>()), copy_(found.of(), *made_) {
    made_->common_subexpressions = found.of().common_subexpressions;
  }

  // The float program, with two outputs for each product that can be quantized: the sum of squared errors of its int8
  // form on the float operands, and the sum of squares of its results.
  struct measured_program {
    std::shared_ptr<const program> program;
    std::vector<std::string> products;
    parameter_store states;
  };
  measured_program errors() {
    choose();
    found_.copy_whole(copy_);
    measured_program result;
    for (const auto& [node, site] : site_at_) {
      int8_.clear();
      product(*site);
      const auto& [q, numbers] = int8_.at(site->result);
      const value exact = copy_.at(site->result), error = dequantize(q, scalars(numbers)) - exact;
      made_->output(site->name, reduce_sum(error * error));
      made_->output(site->name, reduce_sum(exact * exact));
      result.products.push_back(site->name);
    }
    result.states = states_of_made();
    result.program = made_;
    return result;
  }

  quantized_program run() {
    const program& p = found_.of();
    choose();
    copy_.copy_inputs();
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(p.nodes().size()); ++i) {
      const node& n = p.at(i);
      if (!found_.needed()[static_cast<std::size_t>(i)] || n.kind != node_kind::operation || inside_.contains(i) ||
          found_.is_parameter_only({i, 0}))
        continue;
      if (auto s = site_at_.find(i); s != site_at_.end()) product(*s->second);
      else if (auto m = mean_at_.find(i); m != mean_at_.end()) mean(*m->second);
      else if (!in_int8(i, n)) in_float(i, n);
    }
    for (const auto& o : p.outputs()) made_->output(o.name, as_float(o.value));
    for (const auto& a : p.assignments()) made_->assign(as_float({a.state, 0}), as_float(a.value));
    quantized_program result;
    result.states = states_of_made();
    for (const node& n : made_->nodes()) {
      report_.quantize += is_call_of<op::quantize>(n);
      report_.dequantize += is_call_of<op::dequantize>(n);
    }
    result.program = made_;
    result.report = std::move(report_);
    return result;
  }

 private:
  parameter_store states_of_made() {
    parameter_store all;
    for (const auto& kept = made_->reachable(); auto i : made_->states()) {
      const auto& name = made_->at(i).name;
      if (!kept[static_cast<std::size_t>(i)] && !states_.find(name)) continue;
      if (const parameter* s = states_.find(name)) all.add(name, s->value(), s->role(), false);
      else if (const parameter* given = found_.states().find(name))
        all.add(name, given->value(), given->role(), given->trainable());
    }
    return all;
  }
  // Decides which products are quantized, and records why the others are not.
  void choose() {
    std::vector<std::string_view> names;
    for (const auto& s : found_.sites()) names.push_back(s.name);
    for (const auto& name : options_.keep_float)
      if (std::none_of(names.begin(), names.end(), [&](std::string_view n) { return keeps(name, n); })) {
        text t;
        t << "quantize: keep_float: no product is named `" << name << "`";
        suggest_names(t, name, names);
        detail::raise(error_kind::value, t);
      }
    for (const auto& s : found_.sites()) {
      quantization_report::product r{s.name, std::string(found_.of().at(s.node).op->name), s.why.empty(), s.why};
      for (const auto& name : options_.keep_float)
        if (r.quantized && keeps(name, s.name)) r.quantized = false, r.why = "it is in `keep_float`";
      if (r.quantized) {
        site_at_[s.result.node] = &s;
        inside_.insert(s.inside.begin(), s.inside.end());
        ++report_.quantized;
      }
      report_.products.push_back(std::move(r));
    }
    // A sum or average without a range in the profile stays float.
    for (const auto& s : found_.means())
      if (ranges_.find(s.out())) mean_at_[s.node] = &s;
  }
  // A name is that of a product, or of the layer that owns its parameter.
  static bool keeps(std::string_view given, std::string_view product) {
    return product == given ||
           (product.starts_with(given) && (product[given.size()] == '.' || product[given.size()] == '#'));
  }

  quantization_numbers numbers_of(const std::string& name) const {
    const value_range* r = ranges_.find(name);
    text t;
    if (!r)
      detail::raise(error_kind::value,
                    t << "quantize: the profile has no range of `" << name << "`; profile this net again");
    const value_range kept = calibrated(*r, options_.calibration, options_.percentile);
    return numbers_for(kept.low, kept.high, options_.schema);
  }

  // ---- values ---------------------------------------------------------------------------------------------------------

  value as_float(value_id v) {
    if (copy_.has(v)) return copy_.at(v);
    if (found_.of().at(v).kind != node_kind::operation) {
      copy_.copy(v.node);
      return copy_.at(v);
    }
    if (found_.is_parameter_only(v)) {  // parameter-only, and read by a float operation
      in_float(v.node, found_.of().at(v));
      return copy_.at(v);
    }
    const auto& q = int8_.at(v);
    copy_.set(v, dequantize(q.q, scalars(q.numbers)));
    return copy_.at(v);
  }
  const quantized_value& as_int8(value_id v, const std::string& name) {
    if (auto q = int8_.find(v); q != int8_.end()) return q->second;
    const auto numbers = numbers_of(name);
    return int8_[v] = {quantize(as_float(v), scalars(numbers)), numbers};
  }
  // A bound as an int8 number.
  static std::int64_t rounded(double v, const quantization_numbers& as) {
    return static_cast<std::int64_t>(
        std::clamp(std::nearbyint(v / static_cast<double>(as.scale)) + as.zero_point, -128.0, 127.0));
  }
  template <class T> value constant(T v) {
    any_tensor t(tensor_type{dtype_of<T>, {}});
    std::memcpy(t.mutable_data(), &v, sizeof v);
    return made_->constant(t);
  }
  quantization scalars(const quantization_numbers& n) { return {constant(n.scale), constant(n.zero_point)}; }

  template <class T> value state(std::string name, const shape& dims, const std::vector<T>& elements) {
    const std::string preferred = name;
    for (int k = 2; found_.states().find(name) || states_.find(name); ++k) name = preferred + std::to_string(k);
    any_tensor t(tensor_type{dtype_of<T>, dims});
    std::memcpy(t.mutable_data(), elements.data(), elements.size() * sizeof(T));
    states_.add(name, std::move(t), state_role::parameter, false);
    return made_->state(name, {dtype_of<T>, dims});
  }

  // ---- products -------------------------------------------------------------------------------------------------------

  struct weights {
    value weight, scale;
    std::vector<float> scales;
  };
  double largest_weight() const { return options_.weight_bits == 7 ? 63 : 127; }
  // The scale at which `max` is the largest weight, or a power of two that is not below it.
  float scale_of_weights(double max, quantization_schema schema) const {
    const double range = max * (127 / largest_weight());
    return numbers_for(-range, range, schema).scale;
  }
  // One scale per output channel, no zero points.
  const weights& weights_of(const product_site& s, bool conv) {
    const node& n = found_.of().at(s.node);
    const bool columns = !conv && !static_cast<const matmul_attributes*>(n.attributes.get())->transpose_b;
    const auto known = std::pair(s.weight, columns);
    if (auto w = weights_.find(known); w != weights_.end()) return w->second;
    const any_tensor w = found_.compute(s.weight);
    const auto all = w.elements<float>();
    const auto count = static_cast<std::size_t>(s.channels), depth = all.size() / count;
    const auto at = [&](std::size_t o, std::size_t k) {
      return static_cast<double>(columns ? all[k * count + o] : all[o * depth + k]);
    };
    std::vector<std::int8_t> q(all.size());
    weights made;
    for (std::size_t o = 0; o < count; ++o) {
      double max = 0;
      for (std::size_t k = 0; k < depth; ++k) {
        if (!std::isfinite(at(o, k))) {
          text t;
          detail::raise(error_kind::value, t << "quantize: the weights of `" << s.name << "` are not finite");
        }
        max = std::max(max, std::abs(at(o, k)));
      }
      const auto schema = options_.schema == quantization_schema::symmetric_with_power2_scale
                              ? options_.schema
                              : quantization_schema::symmetric;
      made.scales.push_back(scale_of_weights(max, schema));
      const double largest = largest_weight();
      for (std::size_t k = 0; k < depth; ++k)
        q[o * depth + k] = static_cast<std::int8_t>(
            std::clamp(std::nearbyint(at(o, k) / static_cast<double>(made.scales[o])), -largest, largest));
    }
    made.weight =
        state(s.name + ".int8",
              conv ? w.shape() : shape{static_cast<std::int64_t>(count), static_cast<std::int64_t>(depth)}, q);
    made.scale = state(s.name + ".scale", {static_cast<std::int64_t>(count)}, made.scales);
    return weights_[known] = std::move(made);
  }

  value bias_of(const product_site& s, const quantization_numbers& x, const std::vector<float>& scales) {
    std::vector<std::int32_t> q(scales.size());
    if (s.bias) {
      const any_tensor b = found_.compute(s.bias);
      const auto all = b.elements<float>();
      constexpr double max = 1 << 30;  // leaves room in int32 for sums of a few thousand products
      for (std::size_t o = 0; o < q.size(); ++o)
        q[o] = static_cast<std::int32_t>(
            std::clamp(std::nearbyint(static_cast<double>(all[o]) /
                                      (static_cast<double>(x.scale) * static_cast<double>(scales[o]))),
                       -max, max));
    }
    return state(s.name + ".bias", {static_cast<std::int64_t>(q.size())}, q);
  }

  void product(const product_site& s) {
    const node& n = found_.of().at(s.node);
    const bool conv = is_call_of<op::conv2d>(n);
    made_->path = n.path;
    const quantized_value x = as_int8(s.x, s.in());
    const auto& w = weights_of(s, conv);
    const quantization_numbers y = numbers_of(s.out());
    const quantized_weights with{w.weight, w.scale, bias_of(s, x.numbers, w.scales)};
    const auto within = [&](double v) { return rounded(v, y); };
    value q;
    if (conv)
      q = quantized_conv2d(x.q, scalars(x.numbers), with, scalars(y),
                           {*static_cast<const conv2d_attributes*>(n.attributes.get()), within(s.low), within(s.high),
                            options_.weight_bits});
    else
      q = quantized_linear(x.q, scalars(x.numbers), with, scalars(y),
                           {within(s.low), within(s.high), false, options_.weight_bits});
    made_->path.clear();
    int8_[s.result] = {q, y};
  }

  // A sum or an average in int8, if its operands are int8; a relu after a sum becomes a bound.
  void mean(const mean_site& s) {
    const node& n = found_.of().at(s.node);
    const auto a = int8_.find(n.inputs[0]), b = s.window ? a : int8_.find(n.inputs[1]);
    if (a == int8_.end() || b == int8_.end()) return in_float(s.node, n);
    const quantization_numbers y = numbers_of(s.out());
    const auto [left, left_as] = a->second;
    const auto [right, right_as] = b->second;
    made_->path = n.path;
    const value q = s.window ? quantized_avg_pool2d(left, scalars(left_as), scalars(y), *s.window)
                             : quantized_add(left, scalars(left_as), right, scalars(right_as), scalars(y),
                                             {s.relu ? y.zero_point : -128, 127});
    made_->path.clear();
    int8_[s.result] = {q, y};
    if (s.relu) inside_.insert(s.result.node);
  }

  // ---- everything else ------------------------------------------------------------------------------------------------

  // Operations that work on int8 as on float, if their operands are int8 with the same scale and zero point.
  bool in_int8(std::int32_t i, const node& n) {
    if (!found_.stays_int8(n, [&](value_id v) { return int8_.contains(v); })) return false;
    const auto [q, numbers] = int8_.at(n.inputs[0]);
    made_->path = n.path;
    value result = q;
    if (const auto limits = found_.of().bounds_of(n)) {
      const auto bound = [&](double v) { return constant(static_cast<std::int8_t>(rounded(v, numbers))); };
      if (std::isfinite(limits->low)) result = apply<op::maximum>({}, result, bound(limits->low));
      if (std::isfinite(limits->high)) result = apply<op::minimum>({}, result, bound(limits->high));
    } else {
      std::vector<value> in;
      for (std::size_t k = 0; k < n.inputs.size(); ++k) {
        if (n.reads_data(k) && int8_.at(n.inputs[k]).numbers != numbers) return made_->path.clear(), false;
        in.push_back(n.reads_data(k) ? int8_.at(n.inputs[k]).q : any_form(n.inputs[k]));
      }
      result = {made_.get(), made_->add(*n.op, n.attributes, in)};
    }
    int8_[{i, 0}] = {result, numbers};
    made_->path.clear();
    return true;
  }
  // For an operand of which only the shape is read: either form.
  value any_form(value_id v) {
    if (auto q = int8_.find(v); q != int8_.end() && !copy_.has(v)) return q->second.q;
    return as_float(v);
  }
  void in_float(std::int32_t i, const node& n) {
    std::vector<value> in;
    for (std::size_t k = 0; k < n.inputs.size(); ++k)
      in.push_back(!n.reads_data(k) ? any_form(n.inputs[k]) : as_float(n.inputs[k]));
    copy_.copy(i, in);
  }

  detail::product_finder& found_;
  const quantization_profile& ranges_;
  const quantization_options& options_;
  std::shared_ptr<program> made_;
  rewriter copy_;
  std::map<std::int32_t, const product_site*> site_at_;  // by the last node of the product's pass
  std::map<std::int32_t, const mean_site*> mean_at_;
  std::set<std::int32_t> inside_;
  std::map<value_id, quantized_value> int8_;
  std::map<std::pair<value_id, bool>, weights> weights_;
  parameter_store states_;  // new states
  quantization_report report_;
};

}  // namespace

namespace {

// Rounds to three significant digits.
double short_number(double x) {
  if (x == 0 || !std::isfinite(x)) return x;
  const double unit = std::pow(10, std::floor(std::log10(std::abs(x))) - 2);
  return std::nearbyint(x / unit) * unit;
}
// The root of squared errors divided by squares; 0 if there is no error.
double relative(double errors, double squares) {
  return errors == 0 ? 0 : squares == 0 ? std::numeric_limits<double>::infinity() : std::sqrt(errors / squares);
}

// The error of each product on samples, by name.
std::map<std::string, double> errors_of(detail::product_finder& found, const quantization_profile& ranges,
                                        const quantization_options& o, view<const std::vector<any_tensor>> samples) {
  auto made = quantizing(found, ranges, o).errors();
  session measuring(made.program, {&made.states, nullptr});
  std::vector<double> errors(made.products.size()), squares(errors);
  std::vector<any_tensor> sums;
  for (const auto& sample : samples) {
    measuring.run(sample, sums);
    for (std::size_t i = 0; i < errors.size(); ++i) {
      errors[i] += static_cast<double>(sums[2 * i].elements<float>()[0]);
      squares[i] += static_cast<double>(sums[2 * i + 1].elements<float>()[0]);
    }
  }
  std::map<std::string, double> all;
  for (std::size_t i = 0; i < errors.size(); ++i) all[made.products[i]] = relative(errors[i], squares[i]);
  return all;
}

// The error of each output on samples.
std::vector<std::pair<std::string, double>> output_errors(const program& p, const parameter_store& states,
                                                          const quantized_program& q,
                                                          view<const std::vector<any_tensor>> samples) {
  parameter_store of_exact = states, of_rounded = q.states;  // sessions add packed forms
  session exact({std::shared_ptr<const program>(), &p}, {&of_exact, nullptr}),
      rounded(q.program, {&of_rounded, nullptr});
  std::vector<double> errors(p.outputs().size()), squares(errors);
  std::vector<any_tensor> left, right;
  for (const auto& sample : samples) {
    exact.run(sample, left);
    rounded.run(sample, right);
    for (std::size_t i = 0; i < errors.size(); ++i) {
      if (left[i].element() != dtype::float32) continue;
      const auto a = left[i].elements<float>(), b = right[i].elements<float>();
      for (std::size_t k = 0; k < a.size(); ++k) {
        const double x = static_cast<double>(a[k]), d = static_cast<double>(b[k]) - x;
        errors[i] += d * d, squares[i] += x * x;
      }
    }
  }
  std::vector<std::pair<std::string, double>> all;
  for (std::size_t i = 0; i < errors.size(); ++i)
    if (p.type(p.outputs()[i].value).element == dtype::float32)
      all.emplace_back(p.outputs()[i].name, relative(errors[i], squares[i]));
  return all;
}

}  // namespace

quantized_program quantize(const program& p, const parameter_store& states, const quantization_profile& ranges,
                           const quantization_options& o, view<const std::vector<any_tensor>> samples) {
  if (ranges.of != p.id())
    detail::raise(error_kind::value, "quantize: the profile is of another program; profile this net");
  if (ranges.samples < 1)
    detail::raise(error_kind::value, "quantize: the profile is empty: it was taken from no sample");
  text t;
  if (!(o.largest_error >= 0))
    detail::raise(error_kind::value, t << "quantize: `largest_error` is " << o.largest_error << "; expected 0 or more");
  if (o.weight_bits != 7 && o.weight_bits != 8)
    detail::raise(error_kind::value, t << "quantize: `weight_bits` is " << o.weight_bits << "; expected 7 or 8");
  if (std::isfinite(o.largest_error) && samples.empty())
    detail::raise(error_kind::value,
                  "quantize: `largest_error` needs samples to measure errors on, and there are none");
  refuse_host(p, "quantize");
  detail::product_finder found(p, states);
  if (samples.empty()) return quantizing(found, ranges, o).run();
  detail::check_samples("quantize", p, samples);
  const auto errors = errors_of(found, ranges, o, samples);
  quantization_options chosen = o;
  for (const auto& [name, error] : errors)
    if (error > o.largest_error) chosen.keep_float.push_back(name);
  quantized_program made = quantizing(found, ranges, chosen).run();
  for (auto& product : made.report.products) {
    const auto error = errors.find(product.name);
    if (error == errors.end()) continue;
    product.error = error->second;
    if (!(error->second > o.largest_error)) continue;
    text why;
    why << "its error on the samples is " << short_number(error->second) << ", more than "
        << short_number(o.largest_error);
    product.why = why.string();
  }
  made.report.outputs = output_errors(p, states, made, samples);
  return made;
}

std::string quantization_report::text() const {
  lamina::text t;
  t << quantized << " of " << static_cast<std::int64_t>(products.size()) << " products are in int8; " << quantize
    << " quantize, " << dequantize << " dequantize\n";
  for (const auto& p : products) {
    t << "  " << p.operation << " " << p.name << ": ";
    if (p.quantized) t << "int8";
    else t << "float, because " << p.why;
    if (p.error && p.quantized) t << ", error " << short_number(*p.error);
    t << "\n";
  }
  for (const auto& [name, error] : outputs) t << "output `" << name << "`: error " << short_number(error) << "\n";
  return t.string();
}

}  // namespace lamina
