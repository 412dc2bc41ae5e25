module lamina:parameter.impl;
import :core;
import :dtype;
import :initializer;
import :parameter;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

void parameter::assign(const any_tensor& v) {
  if (v.type() != value_.type()) {
    text t;
    t << "parameter `" << name_ << "` is " << value_.type() << "; got " << v.type();
    detail::raise(v.element() == value_.element() ? error_kind::shape : error_kind::type, t);
  }
  if (has_elements()) restore();
  else value_ = any_tensor(value_.type());
  if (v.bytes()) std::memcpy(value_.mutable_data(), v.data(), v.bytes());
  changed();
}

void parameter::require_elements() const {
  if (has_elements()) return;
  text t;
  detail::raise(error_kind::state, t << "state `" << name_ << "` is in another process, after training with "
                                     << "`shard_optimizer`; `gather_slots` copies all slots to each process");
}

any_tensor parameter::copy() const {
  if (value_.data() || value_.bytes() == 0) return value_.copy();
  require_elements();
  any_tensor made(value_.type());
  const packed_form& from = *source();
  from.unpack(from.memory, made.mutable_data());
  return made;
}

void parameter::drop() {
  for (auto& [format, form] : packed_) form = {};
  [[maybe_unused]] const any_tensor freed = std::move(value_);
}

packed_form& parameter::packed(std::uint64_t format) { return packed_[format]; }

const packed_form* parameter::source() const {
  for (const auto& [format, form] : packed_)
    if (form.unpack && form.version == version_) return &form;
  return nullptr;
}
bool parameter::release() {
  if (!releasable_ || !value_.data() || !source()) return false;
  [[maybe_unused]] const any_tensor freed = std::move(value_);
  return true;
}
void parameter::restore() {
  if (!value_.data() && value_.bytes() != 0) value_ = copy();
}

std::uint64_t store_identity::next() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

parameter_store::parameter_store(const parameter_store& o) {
  for (const auto& p : o.all_)
    add(p->name(), p->has_elements() ? p->copy() : any_tensor::without_elements(p->value().type()), p->role(),
        p->trainable());
}

parameter* parameter_store::find(std::string_view name) {
  auto i = by_name_.find(name);
  return i == by_name_.end() ? nullptr : all_[i->second].get();
}
const parameter* parameter_store::find(std::string_view name) const {
  auto i = by_name_.find(name);
  return i == by_name_.end() ? nullptr : all_[i->second].get();
}
std::size_t parameter_store::index(std::string_view name) const {
  auto i = by_name_.find(name);
  return i == by_name_.end() ? none : i->second;
}

parameter& parameter_store::add(std::string name, any_tensor value, state_role role, bool trainable) {
  if (find(name)) {
    text t;
    t << "parameter `" << name << "` exists already";
    detail::raise(error_kind::value, t);
  }
  by_name_[name] = all_.size();
  all_.push_back(std::make_unique<parameter>(std::move(name), std::move(value), role, trainable));
  return *all_.back();
}

parameter& parameter_store::make(std::string name, const tensor_type& type, const initializer& how, std::int64_t seed,
                                 state_role role, bool trainable) {
  if (!type.dims.is_static()) {
    text t;
    t << "parameter `" << name << "` has a shape that is not known: " << type.dims;
    detail::raise(error_kind::shape, t);
  }
  any_tensor value(type);
  fill(value, how, seed, name);
  return add(std::move(name), std::move(value), role, trainable);
}

std::size_t parameter_store::bytes() const {
  std::size_t n = 0;
  for (const auto& p : all_)
    if (p->has_elements()) n += p->value().bytes();
  return n;
}

std::size_t parameter_store::packed_forms() const {
  std::size_t n = 0;
  for (const auto& p : all_) n += p->packed_forms();
  return n;
}

}  // namespace lamina
