// Observers that compare epochs: early stopping, best weights, checkpoints of the best and the last epochs.
module lamina:train.best.impl;
import :core;
import :dtype;
import :io;
import :io.file.impl;
import :model;
import :parameter;
import :shape;
import :tensor;
import :train.hyper;
import :train.observe;
import lamina.std;

namespace lamina {

namespace {

std::optional<double> figure_of(const auto& epoch, monitored of) {
  switch (of) {
    case monitored::validation_loss: return epoch.validation_loss;
    case monitored::validation_accuracy: return epoch.validation_accuracy;
    case monitored::loss: return epoch.loss;
    case monitored::accuracy: break;
  }
  return epoch.accuracy;
}

// The best epoch so far.
class best_epoch {
 public:
  best_epoch(monitored of, double min_delta) : of_(of), min_delta_(min_delta) {}
  // Resets. Errors: value_error if the training does not have the metric.
  void begin(std::string_view owner, const training_start& s) {
    detail::check_numbers(owner, {{"min_delta", min_delta_}});
    const bool of_validation = of_ == monitored::validation_loss || of_ == monitored::validation_accuracy,
               of_accuracy = of_ == monitored::validation_accuracy || of_ == monitored::accuracy;
    text t;
    if (of_validation && !s.validates)
      detail::raise(error_kind::value, t << owner << ": `of` is the validation " << (of_accuracy ? "accuracy" : "loss")
                                         << ", but `fit` has no validation data");
    if (of_accuracy && !s.has_accuracy)
      detail::raise(error_kind::value, t << owner
                                         << ": `of` is the accuracy, but this training has none; expected targets of "
                                         << "classes [N] and outputs [N, C]");
    number_ = 0;
  }
  // Returns whether an epoch is better than all before; it then becomes the best one.
  bool take(const auto& epoch) {
    const double v = figure_of(epoch, of_).value_or(std::numeric_limits<double>::quiet_NaN());
    const bool larger = of_ == monitored::validation_accuracy || of_ == monitored::accuracy;
    const bool better = number_ == 0 ? !std::isnan(v) : larger ? v > value_ + min_delta_ : v < value_ - min_delta_;
    if (!better) return false;
    value_ = v;
    number_ = epoch.epoch;
    return true;
  }
  std::int64_t number() const { return number_; }  // 0: none

 private:
  monitored of_;
  double min_delta_, value_ = 0;
  std::int64_t number_ = 0;
};

class stopper {
 public:
  explicit stopper(const stop_early& o) : o_(o), best_(o.of, o.min_delta) {}
  bool began(const training_start& s) {
    text t;
    if (o_.patience < 1)
      detail::raise(error_kind::value, t << "stop_early: `patience` is " << o_.patience << "; expected 1 or more");
    best_.begin("stop_early", s);
    without_gain_ = 0;
    bool go = true;
    for (const auto& e : s.before) go = continues(e);
    return go;
  }
  bool operator()(const training_progress& p) { return !p.epoch_ended || continues(p); }

 private:
  bool continues(const auto& epoch) {
    if (epoch.epoch < o_.from_epoch) return true;
    without_gain_ = best_.take(epoch) ? 0 : without_gain_ + 1;
    return without_gain_ < o_.patience;
  }
  stop_early o_;
  best_epoch best_;
  std::int64_t without_gain_ = 0;
};

// Epoch stored in a file of this training; 0: no such file.
std::int64_t epoch_in(const std::string& path) {
  if (path.empty() || !std::filesystem::exists(path)) return 0;
  const auto metadata = safetensors_reader(path).metadata;
  const auto found = metadata.find("epoch");
  return found == metadata.end() ? 0 : static_cast<std::int64_t>(std::strtoll(found->second.c_str(), nullptr, 10));
}

bool serves(const parameter& p) { return p.role() == state_role::parameter || p.role() == state_role::statistic; }

class keeper {
 public:
  explicit keeper(const keep_best& o) : o_(o), best_(o.of, o.min_delta) {}
  void began(const training_start& s) {
    best_.begin("keep_best", s);
    net_ = &s.net;
    kept_.clear();
    last_ = s.batches_done ? 0 : s.whole_epochs;
    if (o_.path.empty() && s.keep) s.keep([this] { return tensors(); });
    const auto written = s.before.empty() ? 0 : o_.path.empty() ? epoch_in(s) : epoch_in(o_.path);
    for (const auto& e : s.before)
      if (e.epoch <= written) best_.take(e);
    if (best_.number() == 0) return;
    parameter_store found = s.net.parameters();
    if (o_.path.empty()) take(found, s);
    else load_parameters(found, o_.path);
    keep(found);
  }
  bool operator()(const training_progress& p) {
    if (!p.epoch_ended) return last_ = 0, true;  // the model is inside an epoch
    last_ = p.epoch;
    if (!best_.take(p)) return true;
    keep(net_->parameters());
    if (!o_.path.empty()) save_parameters(net_->parameters(), o_.path, {{"epoch", std::to_string(p.epoch)}});
    return true;
  }
  void ended(training_report& r) {
    if (best_.number() == 0 || kept_.empty()) return;
    r.best_epoch = best_.number();
    if (best_.number() == last_) return;
    auto& store = net_->parameters();
    for (const auto& [name, v] : kept_)
      if (parameter* p = store.find(name)) p->assign(v);
  }

 private:
  // Tensors for the checkpoint: the parameters by name, and their epoch.
  std::string prefix() const { return "keep_best." + std::to_string(static_cast<int>(o_.of)) + "."; }
  std::vector<named_tensor> tensors() const {
    std::vector<named_tensor> all;
    if (kept_.empty() || best_.number() == 0) return all;
    any_tensor epoch(tensor_type{dtype::int64, {}});
    std::memcpy(epoch.mutable_data(), &kept_epoch_, sizeof kept_epoch_);
    all.push_back({prefix(), std::move(epoch)});
    for (const auto& [name, v] : kept_) all.push_back({prefix() + name, v});
    return all;
  }
  static const any_tensor* find(const training_start& s, std::string_view name) {
    for (const auto& t : s.kept)
      if (t.name == name) return &t.value;
    return nullptr;
  }
  std::int64_t epoch_in(const training_start& s) const {
    const any_tensor* epoch = find(s, prefix());
    return epoch && epoch->type() == tensor_type{dtype::int64, {}} ? epoch->elements<std::int64_t>()[0] : 0;
  }
  static std::int64_t epoch_in(const std::string& path) { return lamina::epoch_in(path); }
  void take(parameter_store& to, const training_start& s) const {
    for (auto& p : to) {
      if (!serves(p)) continue;
      const any_tensor* v = find(s, prefix() + p.name());
      text t;
      if (!v || v->type() != p.value().type())
        detail::raise(error_kind::file,
                      t << "keep_best: the checkpoint has no weights of the best epoch for parameter `"
                        << printable(p.name()) << "`");
      p.assign(*v);
    }
  }
  void keep(const parameter_store& store) {
    kept_epoch_ = best_.number();
    for (const auto& p : store)
      if (serves(p)) kept_.insert_or_assign(p.name(), p.copy());
  }
  keep_best o_;
  best_epoch best_;
  model_core* net_ = nullptr;
  std::map<std::string, any_tensor> kept_;
  std::int64_t kept_epoch_ = 0;
  std::int64_t last_ = 0;  // epoch whose end the model is at; 0: none
};

class checkpoint_writer {
 public:
  explicit checkpoint_writer(const keep_checkpoints& o) : o_(o), best_(o.of, o.min_delta) {}
  void began(const training_start& s) {
    text t;
    if (o_.last < 0 || o_.every < 1)
      detail::raise(error_kind::value, t << "keep_checkpoints: `last` is " << o_.last << " and `every` " << o_.every
                                         << "; expected last >= 0 and every >= 1");
    if (o_.last == 0 && !o_.best)
      detail::raise(error_kind::value,
                    "keep_checkpoints: `last` is 0 and `best` is false, so there is nothing to write");
    if (o_.best) best_.begin("keep_checkpoints", s);
    std::error_code failed;
    std::filesystem::create_directories(o_.folder, failed);
    if (failed) detail::file_failure(o_.folder, "cannot be created: " + failed.message());
    write_ = s.write_checkpoint;
    written_.clear();
    for (std::int64_t e = 1; e <= s.whole_epochs; ++e)
      if (written_at(e) && std::filesystem::exists(name_of(e))) written_.push_back(e);
    if (!o_.best || s.before.empty()) return;
    const auto written = epoch_in(best_name());
    for (const auto& e : s.before)
      if (e.epoch <= written) best_.take(e);
  }
  bool operator()(const training_progress& p) {
    if (!p.epoch_ended) return true;
    if (o_.best && best_.take(p)) write_(best_name());
    if (o_.last == 0 || !written_at(p.epoch)) return true;
    write_(name_of(p.epoch));
    written_.push_back(p.epoch);
    for (; static_cast<std::int64_t>(written_.size()) > o_.last; written_.pop_front())
      remove(name_of(written_.front()));
    return true;
  }

 private:
  bool written_at(std::int64_t epoch) const { return epoch % o_.every == 0; }
  std::string best_name() const { return (std::filesystem::path(o_.folder) / "best.safetensors").string(); }
  std::string name_of(std::int64_t epoch) const {
    std::string digits = std::to_string(epoch);
    digits.insert(0, 4 - std::min<std::size_t>(4, digits.size()), '0');
    return (std::filesystem::path(o_.folder) / ("epoch-" + digits + ".safetensors")).string();
  }
  static void remove(const std::string& path) {
    std::error_code failed;
    std::filesystem::remove(path, failed);
    if (failed) detail::file_failure(path, "cannot be removed: " + failed.message());
  }
  keep_checkpoints o_;
  best_epoch best_;
  std::function<void(const std::string&)> write_;
  std::deque<std::int64_t> written_;  // epochs of the last checkpoints
};

}  // namespace

stop_early::operator observer() const { return stopper(*this); }
keep_best::operator observer() const { return keeper(*this); }
keep_checkpoints::operator observer() const { return checkpoint_writer(*this); }

}  // namespace lamina
