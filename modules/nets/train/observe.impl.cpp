module;
#include <sys/ioctl.h>
#include <unistd.h>
#include <cstdio>
module lamina:train.observe.impl;
import :core;
import :train.observe;
import lamina.std;

namespace lamina {

detail::observer_base::~observer_base() = default;

namespace {

struct several {
  std::vector<observer> all;
  bool began(const training_start& s) const {
    bool go = true;
    for (const auto& o : all) go = o.began(s) && go;
    return go;
  }
  bool operator()(const training_progress& p) const {
    bool go = true;
    for (const auto& o : all) go = o(p) && go;
    return go;
  }
  void ended(training_report& r) const {
    for (const auto& o : all) o.ended(r);
  }
};

struct bar {
  bool terminal = ::isatty(1) == 1;
  std::chrono::steady_clock::time_point last{};

  static std::string clock(double seconds) {
    auto s = static_cast<long>(seconds + 0.5);
    char b[32];
    if (s >= 3600) std::snprintf(b, sizeof b, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else std::snprintf(b, sizeof b, "%ld:%02ld", s / 60, s % 60);
    return b;
  }
  static std::string padded(std::string s, std::size_t width) {
    return std::string(width - std::min(width, s.size()), ' ') + s;
  }
  // For classification nets.
  static std::string accuracy(double x) { return std::isnan(x) ? "" : "  accuracy " + percent(x); }
  static std::string percent(double x) { return padded(decimals_of(100 * x, 2), 5) + " %"; }
  static int columns() {
    winsize w{};
    return ::ioctl(1, TIOCGWINSZ, &w) == 0 && w.ws_col > 20 ? w.ws_col : 100;
  }

  bool operator()(const training_progress& p) {
    const std::string epoch = "epoch " + std::to_string(p.epoch) + "/" + std::to_string(p.epochs);
    if (p.epoch_ended) {
      std::string line = epoch + "  loss " + decimals_of(p.loss, 4) + accuracy(p.accuracy);
      if (p.validation_loss)
        line += "  validation loss " + decimals_of(*p.validation_loss, 4) +
                (p.validation_accuracy ? accuracy(*p.validation_accuracy) : "");
      line += "  " + decimals_of(p.images_per_second, 0) + " images/s";
      std::printf("%s%s\n", terminal ? "\r\033[K" : "", line.c_str());
      std::fflush(stdout);
      return true;
    }
    auto now = std::chrono::steady_clock::now();
    if (!terminal || (std::chrono::duration<double>(now - last).count() < 0.1 && p.batch != p.batches)) return true;
    last = now;
    const double part = static_cast<double>(p.batch) / static_cast<double>(p.batches);
    const std::string tail = " " + padded(decimals_of(100 * part, 0), 3) + " %  " +
                             decimals_of(p.images_per_second, 0) + " images/s  loss " + decimals_of(p.loss, 4) +
                             accuracy(p.accuracy) + "  left " + clock(p.seconds_left);
    const std::string head = epoch + " ";
    int width = std::clamp(columns() - static_cast<int>(head.size() + tail.size()) - 3, 4, 40);
    int done = static_cast<int>(static_cast<double>(width) * part);
    std::string cells;
    for (int i = 0; i < width; ++i) cells += i < done ? '#' : '.';
    std::printf("\r\033[K%s[%s]%s", head.c_str(), cells.c_str(), tail.c_str());
    std::fflush(stdout);
    return true;
  }
};

}  // namespace

observer observers(std::vector<observer> all) { return several{std::move(all)}; }
observer progress_bar() { return bar(); }

}  // namespace lamina
