// Training logs: a row for each epoch, as CSV or JSON Lines.
module lamina:train.log.impl;
import :core;
import :io;
import :io.document.impl;
import :io.file.impl;
import :io.json_writer.impl;
import :train.observe;
import lamina.std;

namespace lamina {

namespace {

// A row; the members are in column order.
struct log_row {
  std::int64_t epoch = 0, batch = 0;  // batch 0: an epoch row
  double seconds = 0;
  std::optional<double> loss{}, batch_loss{}, accuracy{}, rate{}, speed{}, validation_loss{}, validation_accuracy{};
  double waited = 0;
  std::int64_t skipped = 0;

  // Calls f(name, number, whether it is an integer) for each column; NaN is a missing value.
  template <class F> void each(bool every_batch, F f) const {
    constexpr double none = std::numeric_limits<double>::quiet_NaN();
    f("epoch", static_cast<double>(epoch), true);
    if (every_batch) {
      f("batch", batch ? static_cast<double>(batch) : none, true);
      f("batch_loss", batch_loss.value_or(none), false);
    }
    f("loss", loss.value_or(none), false);
    f("accuracy", accuracy.value_or(none), false);
    f("learning_rate", rate.value_or(none), false);
    f("seconds", seconds, false);
    f("images_per_second", speed.value_or(none), false);
    f("validation_loss", validation_loss.value_or(none), false);
    f("validation_accuracy", validation_accuracy.value_or(none), false);
    f("waited", waited, false);
    f("skipped", static_cast<double>(skipped), true);
  }
};
log_row row_of(const training_progress& p, double earlier) {
  log_row r{p.epoch,         p.epoch_ended ? 0 : p.batch, earlier + p.seconds, p.loss, {}, p.accuracy,
            p.learning_rate, p.images_per_second};
  if (!p.epoch_ended) r.batch_loss = p.batch_loss;
  r.validation_loss = p.validation_loss;
  r.validation_accuracy = p.validation_accuracy;
  r.waited = p.waited;
  r.skipped = p.skipped;
  return r;
}
log_row row_of(const epoch_report& e, double seconds) {
  return {e.epoch,
          0,
          seconds,
          e.loss,
          {},
          e.accuracy,
          e.learning_rate,
          e.images_per_second,
          e.validation_loss,
          e.validation_accuracy,
          e.waited,
          e.skipped};
}

void append_value(text& t, double x, bool whole) {
  if (whole) t << static_cast<std::int64_t>(x);
  else detail::append_number(t, x);
}

struct csv_format {
  static std::string head(bool every_batch) {
    text t;
    log_row{}.each(every_batch, [&](std::string_view name, double, bool) { t << (t.empty() ? "" : ",") << name; });
    return t << "\n", t.string();
  }
  static std::string line(const log_row& r, bool every_batch) {
    text t;
    r.each(every_batch, [&](std::string_view name, double x, bool whole) {
      if (name != "epoch") t << ",";
      if (std::isfinite(x)) append_value(t, x, whole);
    });
    return t << "\n", t.string();
  }
  // Parses epoch, batch and seconds of a line; epoch 0: not a log line.
  static log_row read(std::string_view line, bool every_batch) {
    std::vector<double> numbers;
    for (std::size_t at = 0; at <= line.size();) {
      const auto end = std::min(line.find(',', at), line.size());
      const auto cell = line.substr(at, end - at);
      const auto x = cell.empty() ? std::optional<double>(0.0) : number_in(cell);
      if (!x) return {};
      numbers.push_back(*x);
      at = end + 1;
    }
    std::size_t columns = 0, seconds = 0;
    log_row{}.each(every_batch, [&](std::string_view column, double, bool) {
      if (column == "seconds") seconds = columns;
      ++columns;
    });
    if (numbers.size() != columns || !(numbers[0] >= 1 && numbers[0] < 1e15 && std::abs(numbers[1]) < 1e15)) return {};
    return {static_cast<std::int64_t>(numbers[0]), every_batch ? static_cast<std::int64_t>(numbers[1]) : 0,
            numbers[seconds]};
  }
};

struct json_format {
  static std::string head(bool) { return {}; }
  static std::string line(const log_row& r, bool every_batch) {
    text t;
    r.each(every_batch, [&](std::string_view name, double x, bool whole) {
      if (!std::isfinite(x)) return;
      t << (t.empty() ? "{\"" : ", \"") << name << "\": ";
      append_value(t, x, whole);
    });
    return t << "}\n", t.string();
  }
  static log_row read(std::string_view line, bool) {
    const detail::json_document document(line);
    if (!document.reason.empty() || !document.root().is(detail::json_kind::object)) return {};
    const auto whole = [&](std::string_view name) {
      const auto v = document.root()[name];
      return v && v.is(detail::json_kind::integer) ? v.integer() : 0;
    };
    const auto seconds = document.root()["seconds"];
    const bool real = seconds && (seconds.is(detail::json_kind::real) || seconds.is(detail::json_kind::integer));
    return {std::max<std::int64_t>(whole("epoch"), 0), whole("batch"), real ? seconds.real() : 0};
  }
};

template <class Format> class log_writer {
 public:
  log_writer(std::string path, const log_options& o) : path_(std::move(path)), every_batch_(o.every_batch) {}

  void began(const training_start& s) {
    const bool resumes = s.whole_epochs > 0 || s.batches_done > 0;
    std::string rows = Format::head(every_batch_);
    earlier_ = 0;
    std::error_code ignored;
    if (resumes && std::filesystem::is_regular_file(path_, ignored) && std::filesystem::file_size(path_, ignored) > 0)
      rows = kept(s);
    else
      for (const auto& e : s.before) rows += Format::line(row_of(e, earlier_ += e.seconds), every_batch_);
    write_file_atomically(path_, [&](writer& w) { w.write(rows); });
    file_.emplace(path_);
  }
  bool operator()(const training_progress& p) {
    if (file_ && (p.epoch_ended || every_batch_)) file_->write(Format::line(row_of(p, earlier_), every_batch_));
    return true;
  }
  void ended(training_report&) { file_.reset(); }

 private:
  // The lines of the file up to the resumed position; a last line without an end is truncated.
  std::string kept(const training_start& s) {
    const detail::mapped_file file(path_);
    const std::string_view all(reinterpret_cast<const char*>(file.data), file.size);
    const std::string head = Format::head(every_batch_);
    text t;
    if (!all.starts_with(head))
      detail::file_failure(path_, t << "the first line is `" << printable(all.substr(0, all.find('\n')))
                                    << "`; expected `" << head.substr(0, head.size() - 1) << "`");
    std::string rows = head;
    std::int64_t number = head.empty() ? 0 : 1;
    for (std::size_t at = head.size(), end = 0; (end = all.find('\n', at)) != all.npos; at = end + 1) {
      const log_row r = Format::read(all.substr(at, end - at), every_batch_);
      ++number;
      if (r.epoch < 1) detail::file_failure(path_, t << "line " << number << " is not a row of this log");
      if (r.epoch > s.whole_epochs && (r.batch == 0 || r.epoch > s.whole_epochs + 1 || r.batch > s.batches_done))
        continue;
      rows += all.substr(at, end + 1 - at);
      earlier_ = std::max(earlier_, r.seconds);
    }
    return rows;
  }

  std::string path_;
  bool every_batch_;
  std::optional<append_file> file_;
  double earlier_ = 0;  // seconds of earlier calls
};

}  // namespace

observer csv_log(std::string path, const log_options& o) { return log_writer<csv_format>(std::move(path), o); }
observer json_lines(std::string path, const log_options& o) { return log_writer<json_format>(std::move(path), o); }

}  // namespace lamina
