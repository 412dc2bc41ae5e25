// Ranges of values on samples, and their files.
module lamina:quantize.profile.impl;
import :context;
import :core;
import :dtype;
import :execute;
import :io;
import :io.document.impl;
import :io.file.impl;
import :io.json_writer.impl;
import :op.reduce;
import :passes;
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

using detail::json_kind;
using detail::json_value;

constexpr std::string_view profile_format = "lamina profile";
constexpr std::int64_t profile_version = 1;

bool read_id(std::string_view s, program_id& id) {
  if (s.size() != 32) return false;
  for (std::size_t i = 0; i < 32; ++i) {
    const char c = s[i];
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) return false;
    id.words[i / 16] = id.words[i / 16] << 4 | static_cast<std::uint64_t>(digit);
  }
  return true;
}

// The value that each range of a profile belongs to.
struct observed {
  std::string name;
  value_id of;
};
std::vector<observed> observed_values(const detail::product_finder& found) {
  std::vector<observed> all;
  for (const auto& s : found.sites())
    if (s.why.empty()) all.push_back({s.in(), s.x}), all.push_back({s.out(), s.result});
  for (const auto& s : found.means()) all.push_back({s.out(), s.result});
  return all;
}

// A program with the same inputs whose outputs are the extrema of each value.
program with_extrema(const detail::product_finder& found, const std::vector<observed>& all) {
  program to;
  rewriter copy(found.of(), to);
  found.copy_whole(copy);
  for (const auto& o : all) {
    to.output(o.name, reduce_min(copy.at(o.of), reduce_attributes{}));
    to.output(o.name, reduce_max(copy.at(o.of), reduce_attributes{}));
  }
  return to;
}

// A program with the same inputs whose outputs are some of the values.
std::shared_ptr<const program> with_values(const detail::product_finder& found, view<const observed> some) {
  const auto to = std::make_shared<program>();
  rewriter copy(found.of(), *to);
  found.copy_whole(copy);
  for (const auto& o : some) to->output(o.name, copy.at(o.of));
  return to;
}

void count(const any_tensor& x, value_range& r) {
  const double per_bin = static_cast<double>(r.counts.size()) / (r.high - r.low);
  const std::size_t last = r.counts.size() - 1;
  for (const float v : x.elements<float>())
    ++r.counts[std::min(last, static_cast<std::size_t>(std::max(0.0, (static_cast<double>(v) - r.low) * per_bin)))];
}

// Fills the histogram of each value, some values at a time, so that their tensors do not take too much memory.
void count_values(detail::product_finder& found, view<const observed> values, int bins,
                  view<const std::vector<any_tensor>> samples, quantization_profile& to) {
  constexpr std::size_t max = std::size_t(256) << 20;
  const auto bytes_of = [&](const observed& o) {
    std::size_t bytes = sizeof(float);
    const shape& s = found.of().type(o.of).dims;
    for (int i = 0; i < s.rank; ++i)
      if (__builtin_mul_overflow(bytes, s[i].is_number() ? static_cast<std::size_t>(s[i].code) : 32, &bytes))
        return max;
    return bytes;
  };
  for (std::size_t from = 0, end = 0; from < values.size(); from = end) {
    std::size_t bytes = 0;
    while (end < values.size() && (end == from || bytes + bytes_of(values[end]) <= max))
      bytes += bytes_of(values[end++]);
    session watching(with_values(found, values.subview(from, end - from)), {&found.states(), nullptr});
    std::vector<any_tensor> all;
    for (std::size_t i = from; i < end; ++i) {
      value_range& r = to.values[i];
      r.counts.assign(r.low < r.high ? static_cast<std::size_t>(bins) : 0, 0);
    }
    for (const auto& sample : samples) {
      watching.run(sample, all);
      for (std::size_t i = from; i < end; ++i)
        if (!to.values[i].counts.empty()) count(all[i - from], to.values[i]);
    }
  }
}

constexpr int max_bins = 65536;

}  // namespace

const program& detail::program_of(const program* p) {
  if (!p) raise(error_kind::state, "quantize: the net has no program; it may have been moved from");
  return *p;
}

quantization_profile profile(const program& p, const parameter_store& states,
                             view<const std::vector<any_tensor>> samples, const profile_options& o) {
  text t;
  if (o.bins < 0 || o.bins > max_bins)
    detail::raise(error_kind::value, t << "profile: `bins` is " << o.bins << "; expected 0 to " << max_bins);
  if (samples.empty()) detail::raise(error_kind::value, "profile: there are no samples to run the net on");
  refuse_host(p, "profile");
  detail::check_samples("profile", p, samples);
  detail::product_finder found(p, states);
  const auto values = observed_values(found);
  const auto observing = std::make_shared<const program>(with_extrema(found, values));
  session observer(observing, {&found.states(), nullptr});
  quantization_profile result;
  result.of = p.id();
  for (const auto& v : values)
    result.values.push_back(
        {v.name, std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()});
  std::vector<any_tensor> extrema;
  for (std::size_t k = 0; k < samples.size(); ++k) {
    observer.run(samples[k], extrema);
    const auto number = [&](std::size_t i) { return static_cast<double>(extrema[i].elements<float>()[0]); };
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double low = number(2 * i), high = number(2 * i + 1);
      if (!std::isfinite(low) || !std::isfinite(high))
        detail::raise(error_kind::value, t << "profile: `" << values[i].name << "` has the range [" << low << ", "
                                           << high << "] on sample " << k << "; expected finite values");
      result.values[i].low = std::min(result.values[i].low, low);
      result.values[i].high = std::max(result.values[i].high, high);
    }
    ++result.samples;
  }
  if (o.bins > 0) count_values(found, values, o.bins, samples, result);
  return result;
}

const value_range* quantization_profile::find(std::string_view name) const {
  for (const auto& v : values)
    if (v.name == name) return &v;
  return nullptr;
}

std::string quantization_profile::to_json() const {
  text t;
  t << "{\"format\": \"" << profile_format << "\", \"version\": " << profile_version << ", \"program\": \""
    << detail::digits_of(of.words) << "\", \"samples\": " << samples << ", \"values\": [";
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto& v = values[i];
    t << (i ? ",\n  " : "\n  ") << "{\"name\": ";
    detail::quoted(t, v.name, "profile") << ", \"low\": ";
    detail::append_number(t, v.low) << ", \"high\": ";
    detail::append_number(t, v.high);
    for (std::size_t k = 0; k < v.counts.size(); ++k) t << (k ? ", " : ", \"counts\": [") << v.counts[k];
    t << (v.counts.empty() ? "}" : "]}");
  }
  t << "\n]}\n";
  return t.string();
}

quantization_profile read_profile(std::string_view document_text, std::string_view file) {
  const detail::json_document document(document_text);
  auto fail = [&](auto&&... parts) {
    text t;
    ((t << parts), ...);
    detail::file_failure(file, t);
  };
  if (!document.reason.empty()) fail(document.reason.view());
  auto member = [&](const json_value& of, std::string_view name, auto... kinds) {
    const json_value v = of[name];
    if (!v) fail("`", name, "` is missing");
    if (!(v.is(kinds) || ...)) fail("`", name, "` must be ", (name_of(kinds), ...), "; got ", name_of(v.kind()));
    return v;
  };
  const json_value top = document.root();
  if (!top.is(json_kind::object)) fail("the document must be an object; got ", name_of(top.kind()));
  if (const auto format = member(top, "format", json_kind::string).string(); format != profile_format)
    fail("`format` is `", printable(format), "`; expected `", profile_format, "`");
  if (const auto version = member(top, "version", json_kind::integer).integer(); version != profile_version) {
    text t;
    detail::raise(error_kind::unsupported, t << file << ": version " << version << " of `" << profile_format
                                             << "`; this library reads version " << profile_version);
  }
  quantization_profile p;
  if (const auto id = member(top, "program", json_kind::string).string(); !read_id(id, p.of))
    fail("`program` is `", printable(id), "`; expected 32 hexadecimal digits");
  p.samples = member(top, "samples", json_kind::integer).integer();
  if (p.samples < 1) fail("`samples` is ", p.samples, "; expected 1 or more");
  std::set<std::string, std::less<>> names;
  member(top, "values", json_kind::array).each([&](const json_value& v) {
    if (!v.is(json_kind::object)) fail("`values` has ", name_of(v.kind()), "; expected objects");
    value_range r;
    r.name = member(v, "name", json_kind::string).string();
    r.low = member(v, "low", json_kind::integer, json_kind::real).real();
    r.high = member(v, "high", json_kind::integer, json_kind::real).real();
    if (!std::isfinite(r.low) || !std::isfinite(r.high) || r.low > r.high)
      fail("the range of `", printable(r.name), "` is [", r.low, ", ", r.high,
           "]; expected finite ends, the smaller first");
    if (v["counts"])
      member(v, "counts", json_kind::array).each([&](const json_value& count) {
        if (!count.is(json_kind::integer) || count.integer() < 0 || r.counts.size() == max_bins)
          fail("`counts` of `", printable(r.name), "`: expected at most ", max_bins, " numbers of 0 or more");
        r.counts.push_back(count.integer());
      });
    if (!names.insert(r.name).second) fail("two ranges are named `", printable(r.name), "`");
    p.values.push_back(std::move(r));
  });
  return p;
}

void save_profile(const std::string& path, const quantization_profile& p) {
  const auto document_text = p.to_json();
  write_file_atomically(path, [&](writer& out) { out.write(document_text); });
}
quantization_profile load_profile(const std::string& path) {
  const detail::mapped_file file(path);
  return read_profile({reinterpret_cast<const char*>(file.data), file.size}, path);
}

}  // namespace lamina
