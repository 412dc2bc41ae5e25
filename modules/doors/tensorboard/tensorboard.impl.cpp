module;
#include <unistd.h>
#include <protozero/pbf_writer.hpp>
// Event files: protocol buffer messages in TFRecord framing.
module lamina.tensorboard:tensorboard.impl;
import lamina.tensorboard;
import lamina;
import lamina.std;

namespace lamina {

namespace {

using protozero::pbf_writer;

// Field numbers of the .proto files.
namespace event {
enum : protozero::pbf_tag_type { wall_time = 1, step = 2, file_version = 3, summary = 5, session_log = 7 };
}
namespace summary {
enum : protozero::pbf_tag_type { value = 1 };
enum : protozero::pbf_tag_type { tag = 1, simple_value = 2, histogram = 5 };
}  // namespace summary
namespace histogram_field {
enum : protozero::pbf_tag_type { min = 1, max, num, sum, sum_squares, bucket_limit, bucket };
}
namespace session_log {
enum : protozero::pbf_tag_type { status = 1 };
constexpr int start = 1;
}  // namespace session_log

// CRC-32C (Castagnoli), reflected.
constexpr auto crc_table = [] {
  std::array<std::uint32_t, 256> t{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t c = i;
    for (int k = 0; k < 8; ++k) c = c >> 1 ^ (c & 1 ? 0x82f63b78u : 0u);
    t[i] = c;
  }
  return t;
}();
std::uint32_t masked_crc(std::string_view bytes) {
  std::uint32_t c = ~0u;
  for (char b : bytes) c = crc_table[(c ^ static_cast<unsigned char>(b)) & 255] ^ c >> 8;
  c = ~c;
  return (c >> 15 | c << 17) + 0xa282ead8u;
}

void put(std::string& to, std::uint64_t x, int bytes) {
  for (int i = 0; i < bytes; ++i) to += static_cast<char>(x >> 8 * i & 255);
}
// Record layout: length, checksum of the length, data, checksum of the data.
void put_record(std::string& to, std::string_view bytes) {
  std::string length;
  put(length, bytes.size(), 8);
  to += length;
  put(to, masked_crc(length), 4);
  to += bytes;
  put(to, masked_crc(bytes), 4);
}

// Appends an event record for a step; `fill` adds the remaining fields.
template <class F> void put_event(std::string& to, std::int64_t step, F fill) {
  std::string bytes;
  pbf_writer w(bytes);
  w.add_double(event::wall_time,
               std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count());
  if (step != 0) w.add_int64(event::step, step);
  fill(w);
  put_record(to, bytes);
}
template <class F> void put_summary(append_file& to, std::string_view tag, std::int64_t step, F fill) {
  message_text t;
  if (tag.empty()) detail::raise(error_kind::value, t << "event_file: the tag is empty");
  if (!is_utf8(tag))
    detail::raise(error_kind::value, t << "event_file: the tag `" << printable(tag) << "` is not UTF-8");
  std::string record;
  put_event(record, step, [&](pbf_writer& w) {
    pbf_writer all(w, event::summary), one(all, summary::value);
    one.add_string(summary::tag, tag.data(), tag.size());
    fill(one);
  });
  to.write(record);
}

std::string padded(std::int64_t number, std::size_t digits) {
  const std::string s = std::to_string(number);
  return std::string(digits - std::min(digits, s.size()), '0') + s;
}
// A file name that is new in the folder and sorts after the existing ones.
std::string new_path(const std::string& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  message_text t;
  if (failed) detail::raise(error_kind::file, t << folder << ": cannot be created: " << failed.message());
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const std::int64_t seconds = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  for (std::int64_t number = 0;; ++number) {
    const auto path = std::filesystem::path(folder) / ("events.out.tfevents." + padded(seconds, 10) + "." +
                                                       padded(number, 4) + ".lamina." + std::to_string(::getpid()));
    if (!std::filesystem::exists(path)) return path.string();
  }
}

}  // namespace

event_file::event_file(const std::string& folder, std::int64_t first_step) : path_(new_path(folder)), file_(path_) {
  std::string records;
  constexpr std::string_view version = "brain.Event:2";
  put_event(records, 0, [&](pbf_writer& w) { w.add_string(event::file_version, version.data(), version.size()); });
  if (first_step > 0)
    put_event(records, first_step, [](pbf_writer& w) {
      pbf_writer log(w, event::session_log);
      log.add_enum(session_log::status, session_log::start);
    });
  file_.write(records);
}

void event_file::scalar(std::string_view tag, double value, std::int64_t step) {
  put_summary(file_, tag, step, [&](pbf_writer& w) { w.add_float(summary::simple_value, static_cast<float>(value)); });
}

void event_file::histogram(std::string_view tag, const value_histogram& h, std::int64_t step) {
  message_text t;
  if (h.count == 0 || h.limits.empty())
    detail::raise(error_kind::value, t << "event_file: the histogram `" << printable(tag) << "` has no numbers");
  put_summary(file_, tag, step, [&](pbf_writer& w) {
    pbf_writer of(w, summary::histogram);
    of.add_double(histogram_field::min, h.min);
    of.add_double(histogram_field::max, h.max);
    of.add_double(histogram_field::num, static_cast<double>(h.count));
    of.add_double(histogram_field::sum, h.sum);
    of.add_double(histogram_field::sum_squares, h.sum_of_squares);
    of.add_packed_double(histogram_field::bucket_limit, h.limits.begin(), h.limits.end());
    of.add_packed_double(histogram_field::bucket, h.counts.begin(), h.counts.end());
  });
}

namespace {

class event_writer {
 public:
  event_writer(std::string folder, const tensorboard_options& o) : folder_(std::move(folder)), o_(o) {}

  void began(const training_start& s) {
    message_text t;
    if (o_.every_batches < 0 || o_.every_epochs < 1)
      detail::raise(error_kind::value, t << "tensorboard: `every_batches` is " << o_.every_batches
                                         << " and `every_epochs` " << o_.every_epochs
                                         << "; expected 0 or more, and 1 or more");
    (void)histogram_of(std::vector<float>{}, o_.ranges);
    start_.emplace(s);
    const std::int64_t done = s.whole_epochs * s.batches + s.batches_done, first = done ? done + 1 : 0;
    train_.emplace((std::filesystem::path(folder_) / "train").string(), first);
    if (s.validates) validation_.emplace((std::filesystem::path(folder_) / "validation").string(), first);
  }
  bool operator()(const training_progress& p) {
    if (!train_) return true;
    const std::int64_t step = (p.epoch - 1) * p.batches + p.batch;
    if (p.epoch_ended) epoch(p, step);
    else if (o_.every_batches > 0 && step % o_.every_batches == 0) {
      train_->scalar("batch/loss", p.batch_loss, step);
      train_->scalar("batch/learning_rate", p.learning_rate, step);
    }
    return true;
  }
  void ended(training_report&) {
    train_.reset();
    validation_.reset();
    start_.reset();
  }

 private:
  void epoch(const training_progress& p, std::int64_t step) {
    train_->scalar("loss", p.loss, step);
    if (!std::isnan(p.accuracy)) train_->scalar("accuracy", p.accuracy, step);
    train_->scalar("learning_rate", p.learning_rate, step);
    train_->scalar("images_per_second", p.images_per_second, step);
    if (validation_ && p.validation_loss) validation_->scalar("loss", *p.validation_loss, step);
    if (validation_ && p.validation_accuracy) validation_->scalar("accuracy", *p.validation_accuracy, step);
    if (p.epoch % o_.every_epochs != 0) return;
    if (o_.weights)
      for (const auto& w : start_->net.parameters())
        if (w.role() == state_role::parameter || w.role() == state_role::statistic)
          add("weights/" + w.name(), w.copy(), step);
    if (o_.gradients)
      for (const auto& [name, g] : start_->gradients()) add("gradients/" + name, g, step);
  }
  void add(const std::string& tag, const any_tensor& x, std::int64_t step) {
    const auto h = histogram_of(x, o_.ranges);
    if (h.count > 0) train_->histogram(tag, h, step);
  }

  std::string folder_;
  tensorboard_options o_;
  std::optional<training_start> start_;
  std::optional<event_file> train_, validation_;
};

}  // namespace

observer tensorboard(std::string folder, const tensorboard_options& o) { return event_writer(std::move(folder), o); }

}  // namespace lamina
