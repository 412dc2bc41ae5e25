#include "wake.h"

#include <sys/eventfd.h>
#include <unistd.h>
#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

wake_list::wake_list() : event_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (event_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
}
wake_list::~wake_list() {
  ::close(event_);
  for (auto t = std::move(first_); t;) t = std::move(t->next);  // one by one: destroying the whole chain would recurse
}

void wake_list::push(std::shared_ptr<ticket> t) noexcept {
  {
    std::lock_guard lock(mutex_);
    t->next = std::move(first_);
    first_ = std::move(t);
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(event_, &one, sizeof one);  // fails only if already readable
}

std::shared_ptr<ticket> wake_list::take() noexcept {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto read = ::read(event_, &count, sizeof count);
  std::lock_guard lock(mutex_);
  return std::exchange(first_, nullptr);
}
