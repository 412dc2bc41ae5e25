// Passes the outputs of a batch to metrics, sample by sample if they reject some of it.
module lamina:train.results.impl;
import :core;
import :data.batch;
import :data.loader;
import :dtype;
import :shape;
import :tensor;
import :train;
import lamina.std;

namespace lamina {

/// Outputs and targets of a batch.
struct batch_results {
  std::vector<any_tensor> outputs, targets;
  view<const any_tensor> of_outputs() const { return view<const any_tensor>(outputs); }
  view<const any_tensor> of_targets() const { return view<const any_tensor>(targets); }
};

namespace {

any_tensor rows_of(const any_tensor& x, view<const std::int64_t> rows) {
  tensor_type type = x.type();
  type.dims[0] = dim(static_cast<std::int64_t>(rows.size()));
  any_tensor some(type);
  const std::size_t bytes = x.bytes() / static_cast<std::size_t>(x.shape().at(0));
  auto* to = static_cast<std::byte*>(some.mutable_data());
  for (auto r : rows) {
    if (bytes) std::memcpy(to, x.data() + static_cast<std::size_t>(r) * bytes, bytes);
    to += bytes;
  }
  return some;
}
batch_results rows_of(const batch_results& all, view<const std::int64_t> rows) {
  batch_results some;
  for (const auto& x : all.outputs) some.outputs.push_back(rows_of(x, rows));
  for (const auto& x : all.targets) some.targets.push_back(rows_of(x, rows));
  return some;
}

// Message of the error raised for results, if any.
std::optional<std::string> refusal(const detail::result_taker& probe, const batch_results& of) {
  try {
    probe(of.of_outputs(), of.of_targets());
  } catch (const value_error& why) { return why.what(); }
  return {};
}
// The samples whose results are rejected; none if rows are not samples.
std::vector<sample_problem> refused(const detail::result_taker& probe, const batch_results& all, std::int64_t count,
                                    std::size_t field) {
  const auto by_sample = [&](const any_tensor& x) { return x.shape().rank > 0 && x.shape().at(0) == count; };
  std::vector<sample_problem> wrong;
  if (!std::all_of(all.outputs.begin(), all.outputs.end(), by_sample) ||
      !std::all_of(all.targets.begin(), all.targets.end(), by_sample))
    return wrong;
  for (std::int64_t i = 0; i < count; ++i)
    if (auto why = refusal(probe, rows_of(all, {&i, 1})))
      wrong.push_back({static_cast<std::size_t>(i), field, -1, error_kind::value, std::move(*why)});
  return wrong;
}

}  // namespace

/// Passes the results of a batch to `f`. A rejected sample, found by `probe`, is an error that names it, or is skipped
/// and added to `left_out`. `field`: the first target.
void take_results(const sample_batch& batch, const batch_results& all, std::size_t field, const reading& how,
                  const detail::result_taker& f, const detail::result_taker& probe,
                  std::vector<left_out_sample>& left_out) {
  if (!probe) return f(all.of_outputs(), all.of_targets());
  if (how.on_error == sample_failure::raise) try {
      return f(all.of_outputs(), all.of_targets());
    } catch (const value_error&) {
      const auto wrong = refused(probe, all, batch.size(), field);
      if (wrong.empty()) throw;
      raise_problem(how, batch, wrong[0]);
    }
  std::vector<sample_problem> wrong;
  if (refusal(probe, all)) wrong = refused(probe, all, batch.size(), field);
  if (wrong.empty()) return f(all.of_outputs(), all.of_targets());
  std::vector<std::int64_t> rest;
  std::size_t w = 0;
  for (std::int64_t i = 0; i < batch.size(); ++i)
    if (w < wrong.size() && wrong[w].position == static_cast<std::size_t>(i))
      left_out.push_back(left_out_for(how, batch, wrong[w++]));
    else rest.push_back(i);
  if (rest.empty()) return;
  const batch_results some = rows_of(all, view<const std::int64_t>(rest));
  f(some.of_outputs(), some.of_targets());
}

}  // namespace lamina
