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

stream_core::stream_core(std::shared_ptr<reference_core> net, const stream_options& o) : net_(std::move(net)), weights_(net_->weights()), program_(streamed(net_->inference(), o)) {
  for (const auto& s : program_.inputs) input_sizes_.push_back(static_cast<std::size_t>(s.size()));
  for (const auto& s : program_.outputs) output_sizes_.push_back(static_cast<std::size_t>(s.size()));
  std::vector<shape> shapes = program_.inputs;
  for (const auto& t : program_.memories) {
    shapes.push_back(t.dims);
    at_.push_back(bytes_);
    bytes_ += (t.bytes() + 63) / 64 * 64;
  }
  run_ = net_->bound(*program_.block, shapes, true, *weights_);
  now_ = storage(bytes_ + 64);
  next_ = storage(bytes_ + 64);
  first_ = storage(bytes_ + 64);
  std::memset(first_.data(), 0, bytes_);
  auto byte = [](storage& s, std::size_t at) { return static_cast<std::byte*>(s.data()) + at; };
  if (!program_.memories.empty()) {
    auto start = net_->bound(*program_.start, program_.inputs, false, *weights_);
    // What the memories begin with may not depend on what is in the inputs: zeros stand for them.
    std::vector<any_tensor> nothing;
    for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
      nothing.emplace_back(tensor_type{program_.start->at(program_.start->inputs()[i]).results[0].element, program_.inputs[i]});
      std::memset(nothing.back().mutable_data(), 0, nothing.back().bytes());
      start->bind_input(i, nothing.back().data());
    }
    for (std::size_t k = 0; k < at_.size(); ++k) start->bind_output(k, byte(first_, at_[k]));
    start->run();
  }
  const std::size_t inputs = program_.inputs.size(), outputs = program_.outputs.size();
  for (std::size_t k = 0; k < at_.size(); ++k) {
    run_->bind_input(inputs + k, byte(now_, at_[k]));
    run_->bind_output(outputs + k, byte(next_, at_[k]));
  }
  reset();
}

bool stream_core::step(view<const void* const> inputs, view<void* const> outputs) noexcept {
  try {
    run_->run(inputs, outputs);
  } catch (...) {
    return false;
  }
  std::memcpy(now_.data(), next_.data(), bytes_);
  return true;
}

void stream_core::reset() noexcept { std::memcpy(now_.data(), first_.data(), bytes_); }

}  // namespace lamina
