// Checkpoints: all states of a training, its position, and its metrics so far.
module lamina:train.checkpoint.impl;
import :core;
import :dtype;
import :io;
import :parameter;
import :shape;
import :tensor;
import :train;
import lamina.std;

namespace lamina {

namespace {

constexpr std::string_view figures_name = "report.epochs", schedule_name = "schedule.state",
                           observers_prefix = "observer.";
constexpr std::int64_t max_observed = 1 << 20;  // maximum size of a schedule's state
constexpr std::int64_t figures = 12,
                       fewer_figures[] = {9, 7};  // metrics per epoch; files of earlier versions have fewer

// Metrics of epochs as float64 [epochs x 12]; NaN without validation.
any_tensor table_of(const std::vector<epoch_report>& epochs) {
  any_tensor table(tensor_type{dtype::float64, shape{static_cast<std::int64_t>(epochs.size()), figures}});
  auto* out = reinterpret_cast<double*>(table.mutable_data());
  constexpr double none = std::numeric_limits<double>::quiet_NaN();
  for (const auto& e : epochs)
    for (double x :
         {e.loss, e.accuracy, e.learning_rate, e.seconds, e.images_per_second, e.validation_loss.value_or(none),
          e.validation_accuracy.value_or(none), e.waited, static_cast<double>(e.skipped),
          static_cast<double>(e.validation_skipped), e.weight, static_cast<double>(e.ignored)})
      *out++ = x;
  return table;
}

any_tensor numbers_of(const std::vector<double>& numbers) {
  any_tensor all(tensor_type{dtype::float64, shape{static_cast<std::int64_t>(numbers.size())}});
  std::copy(numbers.begin(), numbers.end(), reinterpret_cast<double*>(all.mutable_data()));
  return all;
}

std::vector<epoch_report> epochs_of(const any_tensor& table) {
  std::vector<epoch_report> epochs(static_cast<std::size_t>(table.shape().at(0)));
  auto in = table.elements<double>();
  const auto columns = static_cast<std::size_t>(table.shape().at(1));
  for (std::size_t i = 0; i < epochs.size(); ++i) {
    auto x = [&](std::size_t k) { return k < columns ? in[i * columns + k] : 0; };
    auto count = [&](std::size_t k) { return x(k) >= 0 && x(k) < 1e15 ? static_cast<std::int64_t>(x(k)) : -1; };
    auto maybe = [&](std::size_t k) { return std::isnan(x(k)) ? std::optional<double>() : x(k); };
    epochs[i] = {static_cast<std::int64_t>(i) + 1,
                 x(0),
                 x(1),
                 x(2),
                 x(3),
                 x(4),
                 maybe(5),
                 maybe(6),
                 x(7),
                 count(8),
                 count(9),
                 x(10),
                 count(11)};
  }
  return epochs;
}

}  // namespace

/// Writes the bytes of a state that another process keeps.
using absent_state = std::function<void(const parameter& state, writer& out)>;

void write_checkpoint(const parameter_store& store, const checkpoint_position& at, const std::string& path,
                      const absent_state& absent) {
  std::vector<safetensors_reader::entry> all;
  for (const auto& p : store) all.push_back({p.name(), p.value().type()});
  // Tensors written after the states.
  std::vector<any_tensor> rest;
  const auto add = [&](std::string_view name, const any_tensor& v) {
    all.push_back({std::string(name), v.type()});
    rest.push_back(v);
  };
  if (!at.epochs.empty()) add(figures_name, table_of(at.epochs));
  if (!at.schedule.empty()) add(schedule_name, numbers_of(at.schedule));
  for (const auto& t : at.observers) add(std::string(observers_prefix) + t.name, t.value);
  write_safetensors(path, view<const safetensors_reader::entry>(all.data(), all.size()),
                    {{"format", "lamina checkpoint 1"},
                     {"epoch", std::to_string(at.epoch)},
                     {"batch", std::to_string(at.batch)},
                     {"step", std::to_string(at.step)},
                     {"seed", std::to_string(at.seed)},
                     {"batch_size", std::to_string(at.batch_size)},
                     {"images", std::to_string(at.images)},
                     {"shards", std::to_string(at.shards)},
                     {"ended", at.ended ? "1" : "0"}},
                    [&](std::size_t i, writer& out) {
                      if (i < store.size() && !store[i].has_elements()) return absent(store[i], out);
                      const any_tensor& v = i < store.size() ? store[i].value() : rest[i - store.size()];
                      out.write(v.data(), v.bytes());
                    });
}
void save_checkpoint(const parameter_store& store, const checkpoint_position& at, const std::string& path) {
  for (const auto& p : store) p.require_elements();
  write_checkpoint(store, at, path, {});
}

/// A checkpoint that matches a store; the store is unchanged until `take`.
struct checkpoint {
  safetensors_file file;
  checkpoint_position at;
  std::vector<std::pair<parameter*, const any_tensor*>> found;
  /// Assigns all states, or those for which `takes` returns true.
  void take(const std::function<bool(const parameter&)>& takes = {}) const {
    for (auto& [p, v] : found)
      if (!takes || takes(*p)) p->assign(*v);
  }
};

namespace {

[[noreturn]] void refuse(const std::string& path, std::string_view field, std::string_view why) {
  text t;
  detail::raise(error_kind::file, t << path << ": " << field << " " << why);
}
[[noreturn]] void refuse_state(const std::string& path, std::string_view name, std::string_view why) {
  refuse(path, "state `" + printable(name) + "`", why);
}

// Training position from the metadata, without the metrics of its epochs.
checkpoint_position position_in(const safetensors_file& file, const std::string& path) {
  const auto number = [&](const char* name) {
    auto f = file.metadata.find(name);
    const char* begin = f == file.metadata.end() ? "" : f->second.c_str();
    char* end = nullptr;
    std::int64_t v = static_cast<std::int64_t>(std::strtoll(begin, &end, 10));
    if (!*begin || *end) refuse(path, std::string("metadata `") + name + "`", "is missing or not a number");
    return v;
  };
  checkpoint_position at{number("epoch"), number("batch"),      number("step"),
                         number("seed"),  number("batch_size"), number("images")};
  if (file.metadata.contains("shards")) at.shards = number("shards");  // files of earlier versions have one
  if (file.metadata.contains("ended")) at.ended = number("ended") == 1;
  constexpr std::int64_t max = std::int64_t(1) << 31;
  if (at.epoch < 0 || at.epoch > max || at.batch < 0 || at.batch > max || at.step < 0)
    refuse(path, "the position", "is negative or too large");
  return at;
}

// Metrics of the epochs up to a position.
std::vector<epoch_report> epochs_in(const any_tensor& table, const checkpoint_position& at, const std::string& path) {
  const auto rows = at.epoch + (at.batch > 0 ? 1 : 0);
  const auto has = [&](std::int64_t columns) {
    return table.type() == tensor_type{dtype::float64, shape{rows, columns}};
  };
  if (!has(figures) && std::none_of(std::begin(fewer_figures), std::end(fewer_figures), has)) {
    text why;
    why << "is " << table.type() << "; expected float64[" << rows << "x" << figures << "]";
    refuse_state(path, figures_name, why.view());
  }
  auto epochs = epochs_of(table);
  for (const auto& e : epochs) {
    const bool good = std::isfinite(e.loss) && !(e.accuracy < 0 || e.accuracy > 1) &&
                      std::isnan(e.accuracy) == std::isnan(epochs[0].accuracy) && e.seconds >= 0 && e.waited >= 0 &&
                      std::isfinite(e.waited) && e.skipped >= 0 && e.validation_skipped >= 0 &&
                      std::isfinite(e.weight) && e.ignored >= 0 && std::isfinite(e.seconds) &&
                      std::isfinite(e.images_per_second);
    if (!good)
      refuse_state(path, figures_name, "has metrics of epoch " + std::to_string(e.epoch) + " that are invalid");
  }
  return epochs;
}

// State of a schedule.
std::vector<double> schedule_in(const any_tensor& state, const std::string& path) {
  const auto& dims = state.shape();
  if (state.element() != dtype::float64 || dims.rank != 1 || dims.at(0) > max_observed)
    refuse_state(path, schedule_name, "is not a float64 list for a schedule");
  const auto numbers = state.elements<double>();
  return {numbers.begin(), numbers.end()};
}

}  // namespace

checkpoint read_checkpoint(parameter_store& store, const std::string& path) {
  checkpoint c{read_safetensors(path), {}, {}};
  const auto& file = c.file;
  if (auto f = file.metadata.find("format"); f == file.metadata.end() || f->second != "lamina checkpoint 1")
    refuse(path, "metadata `format`", "is not `lamina checkpoint 1`, so this is not a checkpoint");
  c.at = position_in(file, path);
  if (const any_tensor* table = file.find(figures_name)) c.at.epochs = epochs_in(*table, c.at, path);
  if (const any_tensor* state = file.find(schedule_name)) c.at.schedule = schedule_in(*state, path);
  for (std::size_t i = 0; i < store.size(); ++i) {
    const any_tensor* v = file.find(store[i].name());
    if (!v) refuse_state(path, store[i].name(), "is missing");
    if (v->type() != store[i].value().type()) {
      text why;
      why << "is " << v->type() << "; expected " << store[i].value().type();
      refuse_state(path, store[i].name(), why.view());
    }
    c.found.emplace_back(&store[i], v);
  }
  for (const auto& t : file.tensors) {
    if (store.find(t.name) || t.name == figures_name || t.name == schedule_name) continue;
    if (!t.name.starts_with(observers_prefix)) refuse_state(path, t.name, "is in the file, but not in the model");
    c.at.observers.push_back({t.name.substr(observers_prefix.size()), t.value});
  }
  return c;
}

checkpoint_position load_checkpoint(parameter_store& store, const std::string& path) {
  auto found = read_checkpoint(store, path);
  found.take();
  return found.at;
}

}  // namespace lamina
