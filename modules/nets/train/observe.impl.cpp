module;
#include <cstdio>
#include <sys/ioctl.h>
#include <unistd.h>
module lamina:train.observe.impl;
import :core;
import :train;
import lamina.std;

namespace lamina {

observer observers(std::vector<observer> all) {
  return [all = std::move(all)](const training_progress& p) {
    bool go = true;
    for (const auto& o : all) go = o(p) && go;
    return go;
  };
}

namespace {

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
  static int columns() {
    winsize w{};
    return ::ioctl(1, TIOCGWINSZ, &w) == 0 && w.ws_col > 20 ? w.ws_col : 100;
  }

  bool operator()(const training_progress& p) {
    char line[512];
    if (p.epoch_ended) {
      int n = std::snprintf(line, sizeof line, "epoch %lld/%lld  loss %.4f  accuracy %5.2f %%", static_cast<long long>(p.epoch), static_cast<long long>(p.epochs), p.loss, 100 * p.accuracy);
      auto left = [&] { return sizeof line - static_cast<std::size_t>(n); };
      if (p.validation_accuracy) n += std::snprintf(line + n, left(), "  validation loss %.4f  accuracy %5.2f %%", *p.validation_loss, 100 * *p.validation_accuracy);
      std::snprintf(line + n, left(), "  %.0f images/s", p.images_per_second);
      std::printf("%s%s\n", terminal ? "\r\033[K" : "", line);
      std::fflush(stdout);
      return true;
    }
    auto now = std::chrono::steady_clock::now();
    if (!terminal || (std::chrono::duration<double>(now - last).count() < 0.1 && p.batch != p.batches)) return true;
    last = now;
    char tail[256];
    std::snprintf(tail, sizeof tail, " %3.0f %%  %.0f images/s  loss %.4f  accuracy %5.2f %%  left %s", 100.0 * static_cast<double>(p.batch) / static_cast<double>(p.batches),
                  p.images_per_second, p.loss, 100 * p.accuracy, clock(p.seconds_left).c_str());
    char head[64];
    std::snprintf(head, sizeof head, "epoch %lld/%lld ", static_cast<long long>(p.epoch), static_cast<long long>(p.epochs));
    int width = std::clamp(columns() - static_cast<int>(std::strlen(head) + std::strlen(tail)) - 3, 4, 40);
    int done = static_cast<int>(static_cast<double>(width) * static_cast<double>(p.batch) / static_cast<double>(p.batches));
    std::string cells;
    for (int i = 0; i < width; ++i) cells += i < done ? '#' : '.';
    std::printf("\r\033[K%s[%s]%s", head, cells.c_str(), tail);
    std::fflush(stdout);
    return true;
  }
};

}  // namespace

observer progress_bar() {
  auto b = std::make_shared<bar>();
  return [b](const training_progress& p) { return (*b)(p); };
}

}  // namespace lamina
