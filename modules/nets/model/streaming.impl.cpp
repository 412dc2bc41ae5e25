module lamina:streaming.impl;
import :core;
import :dtype;
import :execute;
import :program;
import :reference;
import :shape;
import :stream;
import :tensor;
import lamina.std;

namespace lamina {

stream_core::stream_core(std::shared_ptr<const reference_core> net, const stream_options& o)
    : net_(std::move(net)), weights_(net_->weights()), program_(streamed(net_->inference(), o)), block_(o.block) {
  for (const auto& s : program_.inputs) input_sizes_.push_back(static_cast<std::size_t>(s.size()));
  for (const auto& s : program_.outputs) output_sizes_.push_back(static_cast<std::size_t>(s.size()));
  const auto aligned = [](std::size_t bytes) { return (bytes + 63) / 64 * 64; };
  const auto part_of_block = [&](const tensor_type& t) {
    return t.bytes() / static_cast<std::size_t>(o.positions) * static_cast<std::size_t>(o.block);
  };
  std::vector<shape> shapes = program_.inputs;
  std::size_t made = 0;
  for (const auto& [t, kept] : program_.memories) {
    shapes.push_back(t.dims);
    if (kept == stream_memory::way::replaced) bytes_ += aligned(t.bytes());
    if (kept != stream_memory::way::appended) continue;
    cache_bytes_ += aligned(t.bytes());
    made += aligned(part_of_block(t));
    room_ = o.positions;
  }
  run_ = net_->bound(*program_.block, shapes, true, *weights_);
  run_->hold();
  // A memory that is read before it is written needs no second place. Where a run may fail, nothing is written early.
  std::vector<char> in_place;
  for (std::size_t output = program_.outputs.size(), k = 0; k < program_.memories.size(); ++k) {
    const auto& [t, kept] = program_.memories[k];
    in_place.push_back(kept == stream_memory::way::replaced && run_->plan().checks().empty() &&
                       run_->plan().in_place(program_.inputs.size() + k, output));
    if (kept == stream_memory::way::replaced && !in_place.back()) copied_ += aligned(t.bytes());
    if (kept != stream_memory::way::counted) ++output;
  }
  now_ = storage(bytes_ + 64);
  next_ = storage(copied_ + 64);
  first_ = storage(bytes_ + 64);
  cache_ = storage(cache_bytes_ + 64);
  made_ = storage(made + 64);
  std::memset(first_.data(), 0, bytes_);

  const auto byte = [](storage& s, std::size_t at) { return static_cast<std::byte*>(s.data()) + at; };
  std::unique_ptr<executor> start;
  std::vector<any_tensor> nothing;
  if (bytes_) {
    start = net_->bound(*program_.start, program_.inputs, false, *weights_);
    // What the memories begin with may not depend on what is in the inputs: zeros stand for them.
    for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
      nothing.emplace_back(
          tensor_type{program_.start->at(program_.start->inputs()[i]).results[0].element, program_.inputs[i]});
      std::memset(nothing.back().mutable_data(), 0, nothing.back().bytes());
      start->bind_input(i, nothing.back().data());
    }
  }
  std::size_t input = program_.inputs.size(), output = program_.outputs.size(), first = 0, cache_at = 0, made_at = 0;
  std::size_t copied_at = 0, in_place_at = copied_;
  for (const auto& [t, kept] : program_.memories) {
    switch (kept) {
      case stream_memory::way::counted: run_->bind_input(input, position_.get()); break;
      case stream_memory::way::replaced: {
        const bool stays = in_place[input - program_.inputs.size()];
        std::size_t& at = stays ? in_place_at : copied_at;
        start->bind_output(first++, byte(first_, at));
        run_->bind_input(input, byte(now_, at));
        run_->bind_output(output++, byte(stays ? now_ : next_, at));
        at += aligned(t.bytes());
        break;
      }
      case stream_memory::way::appended: {
        run_->bind_input(input, byte(cache_, cache_at));
        run_->bind_output(output++, byte(made_, made_at));
        const auto heads = static_cast<std::size_t>(t.dims.size(0, t.dims.rank - 2));
        if (heads)
          appended_.push_back(
              {byte(made_, made_at), byte(cache_, cache_at), heads, part_of_block(t) / heads, t.bytes() / heads});
        cache_at += aligned(t.bytes());
        made_at += aligned(part_of_block(t));
        break;
      }
    }
    ++input;
  }
  bound_inputs_.resize(program_.inputs.size());
  bound_outputs_.resize(program_.outputs.size());
  if (start) start->run();
  reset();
}

bool stream_core::step_anew(view<const void* const> inputs, view<void* const> outputs) noexcept {
  plain_ = false;
  if (remaining() < block_) return false;
  try {
    for (std::size_t i = 0; i < inputs.size(); ++i) run_->bind_input(i, bound_inputs_[i] = inputs[i]);
    for (std::size_t i = 0; i < outputs.size(); ++i) run_->bind_output(i, bound_outputs_[i] = outputs[i]);
    // Memories that are replaced in place change as a whole or not at all.
    bytes_ > copied_ ? run_->run_undivided() : run_->run();
  } catch (...) { return false; }
  move_memories();
  *position_ += block_;
  const bool endless = room_ == std::numeric_limits<std::int64_t>::max();
  plain_ = endless && !copied_ && run_->is_plain();
  return true;
}

void stream_core::move_memories() noexcept {
  if (copied_) std::memcpy(now_.data(), next_.data(), copied_);
  if (appended_.empty()) return;  // the division costs what a small net's products do
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
