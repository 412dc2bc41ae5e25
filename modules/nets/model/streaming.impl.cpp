module lamina:streaming.impl;
import :core;
import :dtype;
import :execute;
import :program;
import :reference;
import :session;
import :shape;
import :stream;
import :tensor;
import lamina.std;

namespace lamina {

namespace {
constexpr std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }
std::byte* byte(const storage& s, std::size_t at) { return static_cast<std::byte*>(s.data()) + at; }
}  // namespace

// Offset of a memory in its buffer, and of its block for an `appended` one. `stays`: it is updated in place.
struct stream_core::memory_place {
  bool stays = false;
  std::size_t at = 0, block_at = 0;
};

stream_core::stream_core(std::shared_ptr<const reference_core> net, const stream_options& o)
    : net_(std::move(net)),
      weights_(net_->weights()),
      program_(streamed(net_->inference(), o)),
      session_(net_->session_of(program_.block, *weights_, true)),
      block_(o.block) {
  for (const auto& s : program_.inputs) input_sizes_.push_back(static_cast<std::size_t>(s.size()));
  for (const auto& s : program_.outputs) output_sizes_.push_back(static_cast<std::size_t>(s.size()));
  std::vector<shape> shapes = program_.inputs;
  for (const auto& m : program_.memories) {
    shapes.push_back(m.type.dims);
    if (m.kept == stream_memory::way::appended) capacity_ = o.positions;
  }
  run_ = &session_.at(shapes);
  run_->hold();
  const auto places = allocate_memories();
  bind_memories(places);
  if (bytes_) compute_first(places);
  bound_inputs_.resize(program_.inputs.size());
  bound_outputs_.resize(program_.outputs.size());
  reset();
}

std::size_t stream_core::bytes_of_block(const tensor_type& t) const {
  return t.bytes() / static_cast<std::size_t>(capacity_) * static_cast<std::size_t>(block_);
}

std::vector<stream_core::memory_place> stream_core::allocate_memories() {
  std::vector<memory_place> places;
  std::size_t blocks = 0, in_place = 0, output = program_.outputs.size();
  for (std::size_t k = 0; k < program_.memories.size(); ++k) {
    const auto& [t, kept] = program_.memories[k];
    memory_place p;
    if (kept == stream_memory::way::appended) {
      p = {false, cache_bytes_, blocks};
      cache_bytes_ += aligned(t.bytes());
      blocks += aligned(bytes_of_block(t));
    } else if (kept == stream_memory::way::replaced) {
      // A memory that is read before it is written is updated in place, unless a run may fail after the write.
      p.stays = run_->plan().checks().empty() && run_->plan().in_place(program_.inputs.size() + k, output);
      std::size_t& bytes = p.stays ? in_place : copied_;
      p.at = bytes;
      bytes += aligned(t.bytes());
    }
    output += kept != stream_memory::way::counted;
    places.push_back(p);
  }
  for (auto& p : places)
    if (p.stays) p.at += copied_;
  bytes_ = copied_ + in_place;
  now_ = storage(bytes_ + 64);
  next_ = storage(copied_ + 64);
  first_ = storage(bytes_ + 64);
  cache_ = storage(cache_bytes_ + 64);
  made_ = storage(blocks + 64);
  std::memset(first_.data(), 0, bytes_);
  return places;
}

void stream_core::bind_memories(view<const memory_place> places) {
  std::size_t input = program_.inputs.size(), output = program_.outputs.size();
  for (std::size_t k = 0; k < places.size(); ++k, ++input) {
    const auto& [t, kept] = program_.memories[k];
    const auto& p = places[k];
    switch (kept) {
      case stream_memory::way::counted: run_->bind_input(input, position_.get()); break;
      case stream_memory::way::replaced:
        run_->bind_input(input, byte(now_, p.at));
        run_->bind_output(output++, byte(p.stays ? now_ : next_, p.at));
        break;
      case stream_memory::way::appended: {
        run_->bind_input(input, byte(cache_, p.at));
        run_->bind_output(output++, byte(made_, p.block_at));
        if (const auto heads = static_cast<std::size_t>(t.dims.size(0, t.dims.rank - 2)))
          appended_.push_back(
              {byte(made_, p.block_at), byte(cache_, p.at), heads, bytes_of_block(t) / heads, t.bytes() / heads});
        break;
      }
    }
  }
}

// Computes the initial memories on zero inputs; they must not depend on the inputs' values.
void stream_core::compute_first(view<const memory_place> places) {
  std::vector<any_tensor> zeros;
  std::vector<const void*> inputs;
  for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
    const auto& type = program_.start->at(program_.start->inputs()[i]).results[0];
    inputs.push_back(zeros.emplace_back(tensor_type{type.element, program_.inputs[i]}).data());
  }
  std::vector<void*> outputs;
  for (std::size_t k = 0; k < places.size(); ++k)
    if (program_.memories[k].kept == stream_memory::way::replaced) outputs.push_back(byte(first_, places[k].at));
  net_->session_of(program_.start, *weights_, false)
      .run(program_.inputs, inputs, [&outputs](std::size_t i, const tensor_type&) { return outputs[i]; });
}

bool stream_core::step_rebinding(view<const void* const> inputs, view<void* const> outputs) noexcept {
  plain_ = false;
  if (remaining() < block_) return false;
  try {
    for (std::size_t i = 0; i < inputs.size(); ++i) run_->bind_input(i, bound_inputs_[i] = inputs[i]);
    for (std::size_t i = 0; i < outputs.size(); ++i) run_->bind_output(i, bound_outputs_[i] = outputs[i]);
    // A run that updates memories in place must not be interrupted halfway.
    bytes_ > copied_ ? run_->run_undivided() : run_->run();
  } catch (...) { return false; }
  move_memories();
  *position_ += block_;
  const bool endless = capacity_ == std::numeric_limits<std::int64_t>::max();
  plain_ = endless && !copied_ && run_->is_plain();
  return true;
}

void stream_core::move_memories() noexcept {
  if (copied_) std::memcpy(now_.data(), next_.data(), copied_);
  if (appended_.empty()) return;  // avoids a division as expensive as a small net's products
  const auto blocks = static_cast<std::size_t>(*position_ / block_);
  for (const auto& a : appended_)
    for (std::size_t i = 0; i < a.count; ++i)
      std::memcpy(a.to + i * a.apart + blocks * a.bytes, a.from + i * a.bytes, a.bytes);
}

void stream_core::reset() noexcept {
  if (!position_) return;
  std::memcpy(now_.data(), first_.data(), bytes_);
  *position_ = 0;
}

}  // namespace lamina
