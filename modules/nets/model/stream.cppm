// Streams: a net over sequences, served position by position, with its memory inside.
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

/// How a stream is cut: positions per step, and which named dimension of the inputs counts them; other names are 1.
export struct stream_options {
  std::int64_t block = 1;
  std::string_view time = "T";
  static constexpr std::int64_t max_positions = 1 << 20;
  std::int64_t positions = 0;  ///< how many positions attention remembers: memory for their keys and values
};

/// Memory of a stream from block to block.
struct stream_memory {
  enum class way : std::uint8_t {
    replaced,  ///< by its next value: what a scan carries, the positions that a convolution reaches back to
    appended,  ///< keys or values [..., room, depth]: a block is appended to the earlier ones
    counted,   ///< int64 [1], how many positions there were
  };
  tensor_type type;
  way kept = way::replaced;
};

/// A net as a program of one block of positions, whose inputs and outputs include its memory:
/// the carries of its scans, the positions that its causal convolutions reach back to, keys and values of its attention.
struct streamed_program {
  std::shared_ptr<program> block;  // inputs: the net's, then the memories; outputs: the net's, then of each memory
                                   // but `counted` the next value, or the block to be appended
  std::shared_ptr<program> start;  // outputs: of the memories that are replaced, the first values
  std::vector<stream_memory> memories;
  std::vector<shape> inputs, outputs;  // of the net, for one block
};
/// Errors: value_error naming the operation where a position reads later ones, or where it is not known that none does.
streamed_program streamed(const program& p, const stream_options& o);

/// The part of a stream that is no template. One that was moved has no sizes and no room, and no step of it runs.
class stream_core {
 public:
  stream_core(std::shared_ptr<const reference_core> net, const stream_options& o);
  /// One block. Whether it ran: not where no room for it is left, an operation found an operand wrong, an index out of
  /// range, or a `stop_scope` of this thread was asked to stop; nothing is remembered then.
  template <std::size_t Inputs, std::size_t Outputs>
  inline bool step(const void* const (&inputs)[Inputs], void* const (&outputs)[Outputs]) noexcept {
    // Of a small net every instruction counts: work between two steps delays the first product of the next one.
    bool same = plain_ && !detail::innermost_stop;
    for (std::size_t i = 0; i < Inputs; ++i) same = same && inputs[i] == bound_inputs_[i];
    for (std::size_t i = 0; i < Outputs; ++i) same = same && outputs[i] == bound_outputs_[i];
    if (!same) return step_anew({inputs, Inputs}, {outputs, Outputs});
    run_->run_plain();
    *position_ += block_;
    return true;
  }
  /// Forgets everything, as before the first position.
  void reset() noexcept;
  /// 0 where there is none.
  inline std::size_t size_of_input(std::size_t i) const { return i < input_sizes_.size() ? input_sizes_[i] : 0; }
  inline std::size_t size_of_output(std::size_t i) const { return i < output_sizes_.size() ? output_sizes_[i] : 0; }
  inline std::int64_t position() const { return position_ ? *position_ : 0; }
  inline std::int64_t remaining() const { return position_ ? room_ - *position_ : 0; }
  /// Bytes of the memory from block to block.
  std::size_t memory_bytes() const { return bytes_ + cache_bytes_; }

 private:
  // A block of keys or values, and where it goes: `count` runs of `bytes`, for a head of a sample each, `apart` in the cache.
  struct appended_block {
    const std::byte* from;
    std::byte* to;
    std::size_t count, bytes, apart;
  };

  // Any step: binds memory, may fail, and moves the memory of the stream.
  bool step_anew(view<const void* const> inputs, view<void* const> outputs) noexcept;
  void move_memories() noexcept;
  struct memory_place;
  std::vector<memory_place> make_room();
  void bind_memories(view<const memory_place> places);
  void compute_first(view<const memory_place> places);
  // Bytes of a block of what is appended to.
  std::size_t bytes_of_block(const tensor_type& t) const;

  std::shared_ptr<const reference_core> net_;
  std::shared_ptr<shared_weights> weights_;
  streamed_program program_;
  session session_;
  executor* run_ = nullptr;                // of the session
  std::vector<const void*> bound_inputs_;  // the caller's memory, as the last step had it
  std::vector<void*> bound_outputs_;
  std::vector<std::size_t> input_sizes_, output_sizes_;  // elements of a block
  std::vector<appended_block> appended_;
  std::size_t bytes_ = 0, cache_bytes_ = 0;
  std::size_t copied_ = 0;             // bytes of what is not replaced in place
  detail::handed_over<bool> plain_{};  // a step on memory that is bound is nothing but a run
  std::int64_t room_ = std::numeric_limits<std::int64_t>::max(), block_ = 0;
  std::unique_ptr<std::int64_t> position_ = std::make_unique<std::int64_t>(0);  // the executor is bound to its address
  storage now_, next_, first_;                                                  // of what is replaced
  storage cache_, made_;  // of what is appended to, and a block of it
};

namespace detail {
template <class Traits, class... S> struct step_check {
  static consteval text message() {
    text t;
    constexpr std::size_t ports = Traits::inputs + Traits::outputs.size();
    if (sizeof...(S) != ports) {
      t << "step takes " << ports << " spans, those of the inputs and then those of the outputs, and is given "
        << sizeof...(S);
      return t;
    }
    const dtype given[] = {
        dtype_of<std::remove_const_t<typename decltype(std::span(std::declval<S&>()))::element_type>>...};
    for (std::size_t i = 0; i < ports && t.empty(); ++i) {
      const bool in = i < Traits::inputs;
      const dtype wanted = in ? Traits::elements[i] : Traits::outputs[i - Traits::inputs].element;
      if (given[i] != wanted)
        t << "step: " << (in ? "input " : "output ") << (in ? i : i - Traits::inputs) << " is " << wanted
          << " and is given " << given[i];
    }
    return t;
  }
};
}  // namespace detail

/// Serves a net over sequences position by position, for one thread. Equal to a run over the whole sequence but for rounding:
/// sums of a single position run in several chains, sums of attention add the memory first, and tanh and sigmoid of float32
/// are computed as in recurrent gates, off by less than 3.5e-7. A moved-from stream has no room: its steps do not run.
template <class Traits> class streaming {
 public:
  streaming(std::shared_ptr<const reference_core> net, const stream_options& o)
      : core_((detail::shared_by(net), std::move(net)), o) {}
  /// Runs one block: the caller's spans for each input, then for each output. No allocation, lock or system call.
  /// Whether it ran: not where a span has another size than the block asks for, an index is out of range, or attention
  /// has no room for the block (`remaining()` is below its positions). Nothing is remembered then.
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
  /// Forgets everything, as before the first position.
  void reset() noexcept { core_.reset(); }
  /// How many positions were served since the beginning or the last `reset()`.
  std::int64_t position() const noexcept { return core_.position(); }
  /// How many more there is room for; where nothing attends to earlier positions, as many as an int64 counts.
  std::int64_t remaining() const noexcept { return core_.remaining(); }
  /// Elements of one block of input or output i.
  std::size_t input_size(std::size_t i = 0) const { return core_.size_of_input(i); }
  std::size_t output_size(std::size_t i = 0) const { return core_.size_of_output(i); }
  /// Bytes of the memory from block to block.
  std::size_t memory_bytes() const { return core_.memory_bytes(); }

 private:
  stream_core core_;
};

/// A stream over a reference model, with the weights of now, which it keeps:
/// `auto voice = stream(factory.create(), {.block = 1}); voice.step(in, out);`.
/// A net with causal attention needs `positions`, for how many its keys and values are kept.
/// Errors: value_error where the net has no such dimension, an operation reads later positions, or attention has no room;
///         it is named; state_error where the reference model was moved from.
export template <class Traits>
streaming<Traits> stream(const reference_model<Traits>& net, const stream_options& o = {}) {
  return {net.shared_part(), o};
}

}  // namespace lamina
