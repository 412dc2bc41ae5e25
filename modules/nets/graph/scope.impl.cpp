module lamina:graph.scope.impl;
import :core;
import :graph.scope;
import :program;
import lamina.std;

namespace lamina::graph {

namespace {
thread_local std::string prefix, device;
}

name_scope::name_scope(std::string_view name, bool reset) : outer_(prefix) {
  if (reset) prefix.clear();
  if (name.empty()) return;
  prefix += name;
  if (name.back() != '/') prefix += '/';
}
name_scope::~name_scope() { prefix.swap(outer_); }
const std::string& name_scope::current() { return prefix; }

device_scope::device_scope(std::string_view requested, const origin&) : outer_(device) {
  if (!requested.empty() && requested != "cpu") {
    text t;
    detail::raise(error_kind::value,
                  t << origin::prefix() << "device_scope: there is no device `" << requested << "`; there is `cpu`");
  }
  device = requested;
}
device_scope::~device_scope() { device.swap(outer_); }
const std::string& device_scope::current() { return device; }

}  // namespace lamina::graph
