module lamina:stop.impl;
import :stop;
import lamina.std;

namespace lamina::detail {

constinit thread_local const stop_link* innermost_stop = nullptr;

stop_link::stop_link(bool (*ask)(const stop_link*) noexcept) noexcept
    : ask_(ask), outer_(std::exchange(innermost_stop, this)) {}
stop_link::~stop_link() { innermost_stop = outer_; }

}  // namespace lamina::detail
