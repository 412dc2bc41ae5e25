// Streams: serve a sequence net position by position; the stream keeps the state between steps.
export module lamina:stream;
import :core;
import :dtype;
import :execute;
import :model;
import :program;
import :reference;
import :session;
import :shape;
import :stop;
import :tensor;
import lamina.std;

namespace lamina {

/// Options of a stream. `block`: positions per step. `time`: name of the input dimension that counts positions; every
/// other named dimension is 1.
export struct stream_options {
  std::int64_t block = 1;
  std::string_view time = "T";
  static constexpr std::int64_t max_positions = 1 << 20;
  std::int64_t positions = 0;  ///< capacity of the key/value cache of attention, in positions
};

/// State that a stream keeps between blocks.
struct stream_memory {
  enum class way : std::uint8_t {
    replaced,  ///< overwritten by its next value: carries of a scan, earlier positions in the window of a convolution
    appended,  ///< cache of keys or values [..., capacity, depth]: each block is appended
    counted,   ///< int64 [1], the number of positions served so far
  };
  tensor_type type;
  way kept = way::replaced;
};

/// A net rewritten as a program of one block of positions. Its inputs and outputs include the memories: carries of
/// scans, earlier positions that causal convolutions read, keys and values of attention.
struct streamed_program {
  std::shared_ptr<program> block;  // inputs: the net's, then the memories; outputs: the net's, then per memory except
                                   // `counted` its next value or the block to append
  std::shared_ptr<program> start;  // outputs: initial values of the `replaced` memories
  std::vector<stream_memory> memories;
  std::vector<shape> inputs, outputs;  // of the net, for one block
};
/// Errors: value_error naming the operation if a position reads later positions, or if that cannot be excluded.
streamed_program streamed(const program& p, const stream_options& o);

/// Non-template part of a stream. A moved-from stream reports size 0 and 0 remaining positions; its steps return false.
class stream_core {
 public:
  stream_core(std::shared_ptr<const reference_core> net, const stream_options& o);
  /// Runs one block. Returns false, and keeps the old state, if the cache is full, an operation rejects an operand, an
  /// index is out of range, or a `stop_scope` of this thread requests a stop.
  template <std::size_t Inputs, std::size_t Outputs>
  inline bool step(const void* const (&inputs)[Inputs], void* const (&outputs)[Outputs]) noexcept {
    // For a small net every instruction matters: work between steps delays the first product of the next step.
    bool same = plain_ && !detail::innermost_stop;
    for (std::size_t i = 0; i < Inputs; ++i) same = same && inputs[i] == bound_inputs_[i];
    for (std::size_t i = 0; i < Outputs; ++i) same = same && outputs[i] == bound_outputs_[i];
    if (!same) return step_rebinding({inputs, Inputs}, {outputs, Outputs});
    run_->run_plain();
    *position_ += block_;
    return true;
  }
  /// Resets the state to before the first position.
  void reset() noexcept;
  /// Elements of input i; 0 if there is no such input.
  inline std::size_t size_of_input(std::size_t i) const { return i < input_sizes_.size() ? input_sizes_[i] : 0; }
  inline std::size_t size_of_output(std::size_t i) const { return i < output_sizes_.size() ? output_sizes_[i] : 0; }
  inline std::int64_t position() const { return position_ ? *position_ : 0; }
  inline std::int64_t remaining() const { return position_ ? capacity_ - *position_ : 0; }
  /// Bytes of the state kept between blocks.
  std::size_t memory_bytes() const { return bytes_ + cache_bytes_; }

 private:
  // Copies a block of keys or values to the cache: `count` runs of `bytes`, one per head and sample, `apart` bytes
  // apart in the cache.
  struct appended_block {
    const std::byte* from;
    std::byte* to;
    std::size_t count, bytes, apart;
  };

  // General step: rebinds memory, may fail, and updates the memories.
  bool step_rebinding(view<const void* const> inputs, view<void* const> outputs) noexcept;
  void move_memories() noexcept;
  struct memory_place;
  std::vector<memory_place> allocate_memories();
  void bind_memories(view<const memory_place> places);
  void compute_first(view<const memory_place> places);
  // Bytes of one block of an `appended` memory.
  std::size_t bytes_of_block(const tensor_type& t) const;

  std::shared_ptr<const reference_core> net_;
  std::shared_ptr<shared_weights> weights_;
  streamed_program program_;
  session session_;
  executor* run_ = nullptr;                // owned by the session
  std::vector<const void*> bound_inputs_;  // the caller's buffers of the last step
  std::vector<void*> bound_outputs_;
  std::vector<std::size_t> input_sizes_, output_sizes_;  // elements of a block
  std::vector<appended_block> appended_;
  std::size_t bytes_ = 0, cache_bytes_ = 0;
  std::size_t copied_ = 0;             // bytes of the `replaced` memories that are not updated in place
  detail::handed_over<bool> plain_{};  // a step on already bound buffers needs only a run
  std::int64_t capacity_ = std::numeric_limits<std::int64_t>::max(), block_ = 0;
  std::unique_ptr<std::int64_t> position_ = std::make_unique<std::int64_t>(0);  // the executor is bound to its address
  storage now_, next_, first_;                                                  // of the `replaced` memories
  storage cache_, made_;  // of the `appended` memories: the caches, and the new block
};

namespace detail {
template <class Traits, class... S> struct step_check {
  static consteval text message() {
    text t;
    constexpr std::size_t ports = Traits::inputs + Traits::outputs.size();
    if (sizeof...(S) != ports) {
      t << "step takes " << ports << " spans, the inputs, then the outputs; got " << sizeof...(S);
      return t;
    }
    const dtype given[] = {
        dtype_of<std::remove_const_t<typename decltype(std::span(std::declval<S&>()))::element_type>>...};
    for (std::size_t i = 0; i < ports && t.empty(); ++i) {
      const bool in = i < Traits::inputs;
      const dtype expected = in ? Traits::elements[i] : Traits::outputs[i - Traits::inputs].element;
      if (given[i] != expected)
        t << "step: " << (in ? "input " : "output ") << (in ? i : i - Traits::inputs) << " is " << expected << "; got "
          << given[i];
    }
    return t;
  }
};
}  // namespace detail

/// Serves a sequence net position by position, on one thread. Results equal a run over the whole sequence up to
/// rounding: sums of a single position use several accumulators, attention sums the cache first, and float32 tanh and
/// sigmoid use the approximation of recurrent gates, with an error below 3.5e-7. Steps of a moved-from stream return
/// false.
template <class Traits> class streaming {
 public:
  streaming(std::shared_ptr<const reference_core> net, const stream_options& o)
      : core_((detail::shared_by(net), std::move(net)), o) {}
  /// Runs one block on the caller's spans: one per input, then one per output. No allocation, lock or system call.
  /// Returns false, and keeps the old state, if a span has the wrong size, an index is out of range, or the attention
  /// cache has too little space (`remaining()` is below the block's positions).
  template <class... S> requires accepted<diagnostic<detail::step_check<Traits, S...>>()>
  bool step(S&&... spans) noexcept {
    const void* in[Traits::inputs];
    void* out[Traits::outputs.size()];
    bool fits = true;
    std::size_t i = 0;
    auto take = [&](auto span) {
      if (i < Traits::inputs) {
        fits = fits && span.size() == core_.size_of_input(i);
        in[i] = span.data();
      } else if constexpr (!std::is_const_v<typename decltype(span)::element_type>) {
        fits = fits && span.size() == core_.size_of_output(i - Traits::inputs);
        out[i - Traits::inputs] = span.data();
      } else fits = false;
      ++i;
    };
    (take(std::span(spans)), ...);
    return fits && core_.step(in, out);
  }
  /// Resets the state to before the first position.
  void reset() noexcept { core_.reset(); }
  /// Number of positions served since construction or the last `reset()`.
  std::int64_t position() const noexcept { return core_.position(); }
  /// Number of positions that still fit; without attention to earlier positions, counted from the maximum of int64.
  std::int64_t remaining() const noexcept { return core_.remaining(); }
  /// Elements of one block of input or output i.
  std::size_t input_size(std::size_t i = 0) const { return core_.size_of_input(i); }
  std::size_t output_size(std::size_t i = 0) const { return core_.size_of_output(i); }
  /// Bytes of the state kept between blocks.
  std::size_t memory_bytes() const { return core_.memory_bytes(); }

 private:
  stream_core core_;
};

/// Creates a stream over a reference model; it keeps the current weights, also after an update:
/// `auto voice = stream(factory.create(), {.block = 1}); voice.step(in, out);`.
/// A net with causal attention needs `positions`, the capacity of its key/value cache.
/// Errors: value_error naming the cause if no input has the dimension, an operation reads later positions, or the cache
///         is smaller than a block; state_error for a moved-from reference model.
export template <class Traits>
streaming<Traits> stream(const reference_model<Traits>& net, const stream_options& o = {}) {
  return {net.shared_part(), o};
}

}  // namespace lamina
