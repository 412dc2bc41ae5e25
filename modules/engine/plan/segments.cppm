// Programs with shapes that only a run determines, cut into segments that are planned one after the other.
export module lamina:segments;
import :core;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

/// What a segment reads: an input of the whole program; a slot, that is, a value of an earlier segment; or, for an
/// operation on the host, the node of a state or constant, whose elements it reads in place.
struct segment_source {
  enum class kind : std::uint8_t { slot, input, state, constant };
  kind is = kind::slot;
  std::size_t at = 0;
};
/// A value that outlives its segment: later segments read it, or it is an output of the whole program.
struct segment_slot {
  tensor_type type;                  // as far as it is known before a run
  std::vector<std::size_t> outputs;  // outputs of the whole program with this value
  bool kept = false;                 // an operation on the host reads it, and may keep its memory
};
/// A value whose number of rows is read after its segment has run.
struct counted_rows {
  segment_source rows, count;
  std::size_t slot = 0;  // of the truncated rows
  std::string what;      // the operation, for messages
};
/// An operation that runs on the host.
struct host_step {
  std::int32_t node = -1;  // in the program that was cut
  std::size_t number = 0;  // among all host steps
  std::vector<segment_source> operands;
  std::vector<std::size_t> results;  // slots
};
using segment_end = std::variant<counted_rows, host_step>;
struct program_segment {
  std::shared_ptr<const program> body;  // null: computes nothing
  std::vector<segment_source> inputs;   // of the body
  std::vector<std::size_t> known;       // inputs whose elements decide shapes: they are known at planning time
  std::vector<std::size_t> outputs;     // the slots that its outputs fill
  std::vector<segment_end> ends;        // counts to read, and host operations to run, after the segment
};
/// A program as a sequence of segments. Each is planned for the extents that earlier ones determined. Values that
/// depend on states alone are repeated in every segment that reads them; the last segment assigns states.
struct segmented_program {
  std::shared_ptr<const program> whole;  // with calls inlined
  std::vector<program_segment> segments;
  std::vector<segment_slot> slots;
  std::size_t host_steps = 0;
  std::vector<std::pair<std::size_t, std::size_t>> passed;  // non-tensor inputs that are outputs: both indices
};
/// Cuts a program after every `truncate`, around operations that run on the host, and before operations whose operands
/// decide shapes and are computed in a run.
/// Errors: unsupported_error for such an operation inside the program of a `cond`, `loop` or `scan`.
segmented_program segmented(const program& p);

}  // namespace lamina
