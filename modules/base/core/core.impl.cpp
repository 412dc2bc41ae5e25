module lamina:core.impl;
import :core;
import lamina.std;

namespace lamina {

void label::too_long() { detail::raise(error_kind::value, "a sublayer or port name has at most 24 characters"); }

error::error(const std::string& what) : std::runtime_error(what) {}
error::~error() = default;
shape_error::~shape_error() = default;
type_error::~type_error() = default;
value_error::~value_error() = default;
file_error::~file_error() = default;
state_error::~state_error() = default;
out_of_memory::out_of_memory(const std::string& what, std::size_t requested, std::int64_t used, std::int64_t limit, std::size_t planned)
    : error(what), requested_(requested), planned_(planned), used_(used), limit_(limit) {}
out_of_memory::~out_of_memory() = default;
deadline_error::~deadline_error() = default;
stopped_error::~stopped_error() = default;
unsupported_error::~unsupported_error() = default;

namespace detail {
void raise(error_kind kind, std::string_view what) {
  std::string message(what);
  switch (kind) {
    case error_kind::shape: throw shape_error(message);
    case error_kind::type: throw type_error(message);
    case error_kind::value: throw value_error(message);
    case error_kind::file: throw file_error(message);
    case error_kind::state: throw state_error(message);
    case error_kind::memory: throw out_of_memory(message);
    case error_kind::deadline: throw deadline_error(message);
    case error_kind::stopped: throw stopped_error(message);
    case error_kind::unsupported: throw unsupported_error(message);
  }
  throw error(message);
}
}  // namespace detail

}  // namespace lamina
