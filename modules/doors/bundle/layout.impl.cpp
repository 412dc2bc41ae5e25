module;
#include "kernel_names.h"
#include "kernels.h"
// Turns plans into the image of a bundle: weights as the plan packs them, offsets, arguments with the names of kernels.
module lamina.bundle:layout.impl;
import :image;
import :write;
import lamina;
import lamina.std;

namespace lamina::bundle {

namespace {

[[noreturn]] void fail(error_kind kind, std::string_view bundle, const text& what) {
  text t;
  t << "bundle `" << bundle << "`: " << what;
  lamina::detail::raise(kind, t);
}

bool is_identifier(std::string_view s) {
  auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  if (s.empty() || s.size() > 100 || !letter(s[0])) return false;
  return std::all_of(s.begin(), s.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9') || c == '_'; });
}
std::string identifier_of(std::string_view name) {
  std::string s;
  for (char c : name) s += is_identifier(std::string("x") + c) ? c : '_';
  return is_identifier(s) ? s : "_" + s;
}

/// Kernel names by address.
class kernel_table {
 public:
  kernel_table() {
    for (std::size_t i = 0; i < kernel_name_count; ++i) names_.emplace(kernel_names[i].address, kernel_names[i].name);
  }
  /// Empty if the address is no kernel of the library.
  std::string_view operator[](const void* address) const {
    auto at = names_.find(address);
    return at == names_.end() ? std::string_view() : std::string_view(at->second);
  }

 private:
  std::unordered_map<const void*, const char*> names_;
};

/// The weights under construction. Equal bytes are stored once.
class constants {
 public:
  constants() { bytes_.resize(sizeof(weights_head)); }
  std::size_t add(const void* data, std::size_t n) {
    const auto* first = static_cast<const char*>(data);
    auto [at, fresh] = known_.try_emplace(std::string(first, n), bytes_.size());
    if (fresh) {
      bytes_.resize(bytes_.size() + aligned(n));
      if (n) std::memcpy(bytes_.data() + at->second, data, n);
    }
    return at->second;
  }
  /// The contents of the weights file, with the header filled in. Errors: none.
  std::vector<std::byte> finish(std::uint64_t& checksum) {
    weights_head head{};
    std::memcpy(head.magic, weights_magic.data(), sizeof head.magic);
    head.version = weights_version;
    head.size = bytes_.size();
    head.checksum = checksum = checksum_of({bytes_.data() + sizeof head, bytes_.size() - sizeof head});
    std::memcpy(bytes_.data(), &head, sizeof head);
    return std::move(bytes_);
  }

 private:
  std::vector<std::byte> bytes_;
  std::unordered_map<std::string, std::size_t> known_;
};

/// Generated self-test values: floats between -1 and 1, integers 0, booleans alternating.
any_tensor made_up(const tensor_type& type) {
  any_tensor t(type);
  auto* to = t.mutable_data();
  std::uint32_t state = 1;
  for (std::size_t i = 0, n = static_cast<std::size_t>(type.dims.size()); i < n; ++i) {
    state = state * 1664525u + 1013904223u;
    const double v = static_cast<double>(state >> 8) * 0x1p-23 - 1;
    auto put = [&](auto x) { std::memcpy(to + i * sizeof x, &x, sizeof x); };
    if (type.element == dtype::float32) put(static_cast<float>(v));
    else if (type.element == dtype::float64) put(v);
    else if (type.element == dtype::float16) put(float16(static_cast<float>(v)));
    else if (type.element == dtype::bfloat16) put(bfloat16(static_cast<float>(v)));
    else if (type.element == dtype::boolean) put(static_cast<std::uint8_t>(i & 1));
  }
  return t;
}

/// Always false for types other than float and double.
bool all_finite(dtype element, const void* data, std::size_t bytes) {
  const auto all = [&](auto zero) {
    for (std::size_t i = 0; i + sizeof zero <= bytes; i += sizeof zero) {
      auto x = zero;
      std::memcpy(&x, static_cast<const std::byte*>(data) + i, sizeof x);
      if (!(x - x == zero)) return false;
    }
    return true;
  };
  if (element == dtype::float32) return all(0.0f);
  return element == dtype::float64 && all(0.0);
}

/// Lays out one entry.
class layout_of {
 public:
  layout_of(entry_image& to, constants& weights, const kernel_table& kernels, const program_entry& from,
            const options& o, kernels::isa set)
      : to_(to),
        weights_(weights),
        kernels_(kernels),
        bundle_(o.name),
        from_(from),
        options_(o),
        samples_(o.samples),
        states_(from.states),
        plan_(make_plan(from.of, from.inputs, static_cast<lamina::isa>(set),
                        one_by_one(o.passes.value_or(pass_options{})))) {}

  void run(bool first) {
    to_.name = from_.name;
    executor run(plan_, {&states_, nullptr}, nullptr, memory_);
    to_.arena_bytes = plan_->arena_bytes();
    to_.live_bytes = plan_->cost().live_peak;
    to_.scratch = aligned(plan_->arena_bytes());
    to_.activation_bytes = std::max(alignment, aligned(to_.scratch + plan_->scratch_bytes()));
    place_buffers();
    read_relocations();
    find_range();
    keep_once();
    place_calls();
    place_loops();
    name_operations();
    for (const auto& c : plan_->checks()) to_.checks.emplace_back(static_cast<std::size_t>(c.offset), c.message);
    add_test(run, first);
  }

 private:
  struct located {
    std::int32_t buffer = -1;
    std::int64_t offset = 0;
  };

  // A bundle has one thread; each line of the plan must cover consecutive steps; and code that is not linked saves
  // space.
  static pass_options one_by_one(pass_options o) {
    o.parallel = false;
    o.compact = true;
    return o;
  }

  // Places inputs, outputs and assigned states consecutively in the variables region.
  void place_buffers() {
    const auto& inputs = from_.of.inputs();
    auto place = [&](std::string name, const tensor_type& type, symbol::role role) {
      symbol s{std::move(name), {}, type, region::variables, to_.variable_bytes, role};
      const std::string first = s.identifier = identifier_of(s.name);
      for (int& n = next_number_.try_emplace(first, 2).first->second; taken(s.identifier); ++n)
        s.identifier = first + "_" + std::to_string(n);
      identifiers_.insert(upper(s.identifier));
      to_.variable_bytes += aligned(type.bytes());
      to_.tensors.push_back(std::move(s));
    };
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const std::string& name = from_.of.at(inputs[i]).name;
      place(name.empty() ? "input" : name, plan_->input_types()[i], symbol::role::input);
    }
    for (std::size_t i = 0; i < plan_->output_types().size(); ++i) {
      const std::string& name = plan_->output_names()[i];
      place(name.empty() ? "output" : name, plan_->output_types()[i], symbol::role::output);
    }
    for (auto s : plan_->assigned_states()) {
      const auto i = static_cast<std::size_t>(s);
      state_at_[s] = to_.tensors.size();
      place(plan_->state_names()[i], plan_->state_types()[i], symbol::role::state);
    }
    to_.variable_bytes = std::max(alignment, to_.variable_bytes);
    places_.resize(plan_->buffers().size());
  }
  // The header uses the names in upper case too, so the comparison ignores case.
  bool taken(const std::string& identifier) const {
    const std::string capitals = upper(identifier);
    for (std::string_view own : {"SELF_TEST", "CHECK_WEIGHTS", "CONFIG", "RESET"})
      if (capitals == own) return true;
    if (options_.instrument && (capitals == "BEFORE" || capitals == "AFTER")) return true;
    if (options_.dump_tensors && capitals == "TENSOR") return true;
    if (options_.module_interface && (capitals == "MEMORY" || capitals == "CODES")) return true;
    return identifiers_.contains(capitals);
  }

  // Indexes relocations and code pointers by their position in the arguments.
  void read_relocations() {
    for (const auto& r : plan_->relocations()) at_.emplace(r.at, located{r.buffer, r.offset});
    for (const auto& c : plan_->code()) {
      auto& numbers = code_[c.at];
      if (c.numbers != c.always) numbers = c.numbers;
    }
  }
  void find_range() {
    if (auto once = plan_->once_stages()) to_.first = plan_->stages()[once - 1].first + plan_->stages()[once - 1].count;
    to_.end = to_.commit = plan_->cost().steps;
    if (auto c = plan_->commit_stage(); c < plan_->stages().size()) to_.commit = plan_->stages()[c].first;
    to_.calls.resize(plan_->steps().size());
  }
  template <class F> void each_address(std::size_t step, F f) const {
    const auto& s = plan_->steps()[step];
    for (auto i = at_.lower_bound(s.arguments); i != at_.end() && i->first < s.arguments + s.bytes; ++i)
      f(i->first - s.arguments, i->second);
  }

  // Buffers that the plan computes once from states: constants of the bundle, with their present contents in the arena.
  void keep_once() {
    for (std::size_t s = 0; s < to_.first; ++s)
      each_address(s, [&](std::size_t, const located& l) {
        if (plan_->buffers()[static_cast<std::size_t>(l.buffer)].kind == buffer_kind::arena) once_.insert(l.buffer);
      });
  }

  struct place {
    region in = region::none;
    std::size_t offset = 0;
  };
  // Location of a buffer. Constants are added to the weights on first use.
  place place_of(std::int32_t buffer) {
    auto& known = places_[static_cast<std::size_t>(buffer)];
    if (known.in != region::none) return known;
    const auto& b = plan_->buffers()[static_cast<std::size_t>(buffer)];
    const auto at = static_cast<std::size_t>(b.index);
    auto constant = [&](std::string name, const tensor_type& type, const void* data, std::size_t bytes) {
      known = {region::constants, weights_.add(data, bytes)};
      to_.constants.push_back({std::move(name), {}, type, region::constants, known.offset, symbol::role::constant});
    };
    auto raw = [](std::size_t bytes) { return tensor_type{dtype::uint8, shape{static_cast<std::int64_t>(bytes)}}; };
    switch (b.kind) {
      case buffer_kind::arena:
        if (once_.contains(buffer))
          constant("once " + std::to_string(buffer), raw(b.bytes), arena() + b.offset, b.bytes);
        else known = {region::activations, static_cast<std::size_t>(b.offset)};
        break;
      case buffer_kind::input: known = {region::variables, to_.tensors[at].offset}; break;
      case buffer_kind::output:
        known = {region::variables, to_.tensors[plan_->input_types().size() + at].offset};
        break;
      case buffer_kind::state: {
        if (auto assigned = state_at_.find(b.index); assigned != state_at_.end()) {
          known = {region::variables, to_.tensors[assigned->second].offset};
          break;
        }
        const parameter& p = *states_.find(plan_->state_names()[at]);
        constant(p.name(), p.value().type(), p.value().data(), p.value().bytes());
        break;
      }
      case buffer_kind::constant: {
        const any_tensor& c = plan_->constants()[at];
        constant("constant " + std::to_string(at), c.type(), c.data(), c.bytes());
        break;
      }
      case buffer_kind::packed: {
        const auto& k = plan_->packs()[at];
        const std::string& name = plan_->state_names()[static_cast<std::size_t>(k.state)];
        constant(name + " (packed)", raw(k.bytes), states_.find(name)->packed(k.format).memory.data(), k.bytes);
        break;
      }
    }
    return known;
  }
  const std::byte* arena() { return memory_->reserve(0); }

  void place_calls() {
    std::vector<char> part_of_run(to_.calls.size());
    const auto runs = [&](std::size_t first, std::size_t end) {
      for (std::size_t s = first; s < end; ++s) part_of_run[s] = 1;
    };
    runs(to_.first, to_.end);
    for (const auto& l : plan_->loops()) runs(l.first, l.first + l.count);
    for (std::size_t l = 0; l < plan_->loops().size(); ++l)
      loop_at_.emplace(plan_->loops()[l].arguments, static_cast<std::int32_t>(l));
    for (std::size_t s = 0; s < to_.calls.size(); ++s)
      if (part_of_run[s]) place_call(s);
  }
  void place_call(std::size_t s) {
    const auto& step = plan_->steps()[s];
    call& c = to_.calls[s];
    if (const auto l = loop_at_.find(step.arguments); l != loop_at_.end()) {
      c.loop = l->second;
      each_address(s, [&](std::size_t, const located& gate) {
        const auto p = place_of(gate.buffer);
        c.arguments = {{p.offset + static_cast<std::uint64_t>(gate.offset), p.in, {}},
                       {arguments_of(step.arguments).open, region::none, {}}};
      });
      return;
    }
    c.kernel = kernels_[reinterpret_cast<const void*>(step.run)];
    if (c.kernel.empty()) not_a_kernel(s);
    c.arguments.resize((step.bytes + 7) / 8);
    for (std::size_t w = 0; w < c.arguments.size(); ++w) {
      const std::size_t at = step.arguments + 8 * w, n = std::min<std::size_t>(8, step.bytes - 8 * w);
      std::memcpy(&c.arguments[w].value, plan_->arguments().data() + at, n);
      const auto code = code_.find(static_cast<std::uint32_t>(at));
      if (code == code_.end()) continue;
      if (code->second && is_finite(at_.at(*code->second).buffer)) {
        c.arguments[w].value = 0;
        continue;
      }
      c.arguments[w].symbol = kernels_[std::bit_cast<const void*>(c.arguments[w].value)];
      if (c.arguments[w].symbol.empty()) not_a_kernel(s);
    }
    each_address(s, [&](std::size_t at, const located& l) {
      const auto p = place_of(l.buffer);
      c.arguments[at / 8] = {p.offset + static_cast<std::uint64_t>(l.offset), p.in, {}};
    });
  }
  // Whether a buffer is a constant of the bundle that has only finite numbers.
  bool is_finite(std::int32_t buffer) {
    const auto [known, fresh] = finite_.try_emplace(buffer, false);
    if (!fresh) return known->second;
    const auto& b = plan_->buffers()[static_cast<std::size_t>(buffer)];
    const auto at = static_cast<std::size_t>(b.index);
    if (b.kind == buffer_kind::state && !state_at_.contains(b.index)) {
      const any_tensor& value = states_.find(plan_->state_names()[at])->value();
      known->second = all_finite(value.type().element, value.data(), value.bytes());
    } else if (b.kind == buffer_kind::constant) {
      const any_tensor& value = plan_->constants()[at];
      const dtype element = value.type().element;  // uint8 is a packed form, as below
      known->second = all_finite(element == dtype::uint8 ? dtype::float32 : element, value.data(), value.bytes());
    } else if (b.kind == buffer_kind::packed) {  // convolution weights in channel blocks
      const auto& k = plan_->packs()[at];
      const auto& form = states_.find(plan_->state_names()[static_cast<std::size_t>(k.state)])->packed(k.format);
      known->second = all_finite(dtype::float32, form.memory.data(), k.bytes);
    }
    return known->second;
  }
  [[noreturn]] void not_a_kernel(std::size_t step) const {
    text t;
    t << "`" << what_of(step) << "` calls a function that is not a kernel of lamina; a bundle can call only those";
    fail(error_kind::state, bundle_, t);
  }

  void place_loops() {
    std::map<std::uint32_t, std::size_t> step_at;
    for (std::size_t s = 0; s < plan_->steps().size(); ++s) step_at.emplace(plan_->steps()[s].arguments, s);
    for (const auto& l : plan_->loops()) {
      loop made{l.first, l.count, arguments_of(l.arguments).iterations, {}};
      for (std::uint32_t m = 0; m < l.moves; ++m) {
        const auto& move = plan_->moves()[l.first_move + m];
        const auto step = std::prev(step_at.upper_bound(move.at))->second;
        const call& c = to_.calls[step];
        if (c.arguments.empty()) continue;  // packing already done at build time
        made.moves.push_back({step, c.loop >= 0 ? 0 : (move.at - plan_->steps()[step].arguments) / 8, move.stride});
      }
      to_.loops.push_back(std::move(made));
    }
  }
  loop_arguments arguments_of(std::uint32_t at) const {
    loop_arguments a;
    std::memcpy(&a, plan_->arguments().data() + at, sizeof a);
    return a;
  }

  // Calls `f` for each line of the plan, which covers consecutive steps. Indented lines belong to the loop above them
  // and are skipped.
  template <class F> void each_line(F f) const {
    std::size_t at = 0;
    for (const auto& line : plan_->lines()) {
      if (line.what.starts_with("  ")) continue;
      f(line, at);
      at += line.steps;
    }
  }
  std::string what_of(std::size_t step) const {
    std::string what = "a step";
    each_line([&](const auto& line, std::size_t at) {
      if (step >= at && step < at + line.steps) what = line.what;
    });
    return what;
  }
  void name_operations() {
    std::size_t next = to_.first;
    each_line([&](const auto& line, std::size_t at) {
      if (at < to_.first || at >= to_.end) return;
      operation made{line.what, at, line.steps};
      for (const auto& r : line.results) {
        const auto p = place_of(r.buffer);
        made.results.push_back({r.type, p.in, p.offset + static_cast<std::size_t>(r.offset), r.bytes});
      }
      to_.operations.push_back(std::move(made));
      next = at + line.steps;
    });
    if (next < to_.end) to_.operations.push_back({"copies to outputs", next, to_.end - next});
  }

  void add_test(executor& run, bool first) {
    const auto inputs = plan_->input_types().size();
    if (first && !samples_.empty() && samples_.size() != inputs) {
      text t;
      t << "there are " << samples_.size() << " samples for " << inputs << " inputs";
      fail(error_kind::value, bundle_, t);
    }
    std::vector<any_tensor> in, out;
    for (std::size_t i = 0; i < inputs; ++i) {
      const auto& type = plan_->input_types()[i];
      in.push_back(first && !samples_.empty() ? samples_[i] : made_up(type));
      if (in.back().type() != type) {
        text t;
        t << "sample " << i << " is " << in.back().type() << ", but input `" << to_.tensors[i].name << "` is " << type;
        fail(error_kind::value, bundle_, t);
      }
      run.bind_input(i, in.back().data());
      to_.given.push_back(weights_.add(in.back().data(), in.back().bytes()));
    }
    std::vector<std::size_t> first_values;
    for (auto s : plan_->assigned_states()) {
      const auto& value = states_.find(plan_->state_names()[static_cast<std::size_t>(s)])->value();
      first_values.push_back(weights_.add(value.data(), value.bytes()));
    }
    for (std::size_t i = 0; i < plan_->output_types().size(); ++i)
      run.bind_output(i, out.emplace_back(plan_->output_types()[i]).mutable_data());
    run.run();
    for (const auto& t : out) to_.given.push_back(weights_.add(t.data(), t.bytes()));
    to_.given.insert(to_.given.end(), first_values.begin(), first_values.end());
  }

  entry_image& to_;
  constants& weights_;
  const kernel_table& kernels_;
  std::string_view bundle_;
  const program_entry& from_;
  const options& options_;
  const std::vector<any_tensor>& samples_;
  parameter_store states_;  // a copy, whose weights are packed
  std::shared_ptr<const plan> plan_;
  std::shared_ptr<workspace> memory_ = std::make_shared<workspace>();
  std::map<std::uint32_t, located> at_;
  std::map<std::uint32_t, std::optional<std::uint32_t>> code_;  // value: position of the numbers that it is needed for
  std::map<std::int32_t, bool> finite_;                         // cached `is_finite` by buffer
  std::set<std::int32_t> once_;
  std::map<std::int32_t, std::size_t> state_at_;   // index in `tensors` of each assigned state
  std::set<std::string> identifiers_;              // of the tensors, in upper case
  std::map<std::string, int> next_number_;         // next suffix of an identifier that several tensors share
  std::map<std::uint32_t, std::int32_t> loop_at_;  // loop by position of its arguments
  std::vector<place> places_;
};

#if defined(__aarch64__)
constexpr std::string_view own_processor = "aarch64";
#else
constexpr std::string_view own_processor = "x86_64";
#endif
/// The processor of a target, if kernels exist for it and the system is Linux with 64-bit addresses; empty otherwise. A
/// target is processor-vendor-system-environment, where vendor and environment are optional.
std::string_view processor_of(std::string_view target) {
  std::vector<std::string_view> components;
  for (std::size_t at = 0; at <= target.size();) {
    const auto end = std::min(target.find('-', at), target.size());
    components.push_back(target.substr(at, end - at));
    at = end + 1;
  }
  const bool is_x86 = components[0] == "x86_64" || components[0] == "amd64";
  const bool is_arm = components[0] == "aarch64" || components[0] == "arm64";
  const std::string_view processor = is_x86 ? "x86_64" : is_arm ? "aarch64" : "";
  if (components.size() == 1) return processor == own_processor ? processor : "";
  const auto system = std::find(components.begin() + 1, components.end(), "linux") - components.begin();
  const auto last = static_cast<std::ptrdiff_t>(components.size()) - 1;
  if (processor.empty() || system < 1 || system > 2 || system < last - 1 || system > last) return {};
  const std::string_view environment = system < last ? components.back() : std::string_view();
  const bool usual = environment == "gnu" || environment == "musl" || environment.starts_with("android");
  if (!environment.empty() && !usual) return {};
  return processor;
}

/// The kernel set of the target. Kernels for another processor also run here, in registers of the same size, to pack
/// weights and to compute the expected self-test outputs.
kernels::isa set_of(const options& o) {
  if (o.passes && o.passes->compute != dtype::float32)
    fail(error_kind::unsupported, o.name,
         text() << "pass_options::compute is " << o.passes->compute
                << ", whose kernels depend on the processor that runs them; a bundle computes in float32");
  const std::string_view processor = o.target.empty() ? own_processor : processor_of(o.target);
  text t;
  if (processor == own_processor) {
    const auto set = o.set.value_or(target_isa());
    if (machine_has(set)) return static_cast<kernels::isa>(set);
    t << "its weights are packed for " << name_of(set) << ", which this machine lacks; choose another set";
  } else if (processor.empty()) {
    t << "the target `" << printable(o.target) << "` is not supported: bundles are object files for Linux on x86_64 or "
      << "aarch64 with 64-bit addresses, such as x86_64-linux-gnu and aarch64-linux-gnu";
    fail(error_kind::unsupported, o.name, t);
  } else if (processor == "x86_64") {
    t << "its weights would be packed by kernels for x86_64, which this machine cannot run; write the bundle on x86_64";
  } else if (o.set && *o.set != lamina::isa::neon64) {
    t << name_of(*o.set) << " is an instruction set of x86_64; the target `" << printable(o.target) << "` uses neon64";
  } else if (!machine_has(lamina::isa::avx2)) {
    t << "packing its weights and running its self-test for neon64 need AVX2, which this machine lacks";
  } else return kernels::isa::neon64;
  fail(error_kind::value, o.name, t);
}

/// Errors: unsupported_error that names all operations that do not fit in a single plan.
void refuse_segments(std::string_view bundle, const program& p) {
  constexpr std::size_t max_named = 100;
  const auto all = why_in_segments(p, max_named);
  if (all.empty()) return;
  text t;
  for (const auto& why : all) t << why << "; ";
  if (all.size() == max_named) t << "and perhaps more; ";
  t << "a bundle is one plan with constant offsets and sizes: run this net by a session, or build it without "
    << (all.size() == 1 ? "this operation" : "these operations");
  fail(error_kind::unsupported, bundle, t);
}

}  // namespace

image image_of(view<const program_entry> parts, const options& o) {
  text t;
  if (!is_identifier(o.name)) {
    t << "the name has to be a C identifier of at most 100 letters, digits and underscores that begins with a letter";
    fail(error_kind::value, o.name, t);
  }
  if (const auto why = why_reserved(o.name); !why.empty()) fail(error_kind::value, o.name, t << "the name " << why);
  if (parts.empty()) {
    t << "it has no entry; give at least one program";
    fail(error_kind::value, o.name, t);
  }
  image made{o.name, set_of(o), {}, {}, 0, {}};
  if (made.cross_compiled()) made.target = o.target;
  for (const auto& p : parts) refuse_segments(o.name, p.of);
  const kernel_table kernels;
  constants weights;
  // Values that depend on weights alone are computed here, once for all entries of a program.
  std::map<std::pair<const program*, const parameter_store*>, saved_net> ready;
  for (const auto& p : parts) {
    auto same = [&](const entry_image& e) { return e.name == p.name; };
    if (!is_identifier(p.name) || std::any_of(made.entries.begin(), made.entries.end(), same)) {
      t << "the entry `" << printable(p.name) << "` needs a C identifier that no other entry has";
      fail(error_kind::value, o.name, t);
    }
    if (const auto why = why_reserved(p.name); !why.empty())
      fail(error_kind::value, o.name, t << "the name of the entry `" << p.name << "` " << why);
    const auto [at, fresh] = ready.try_emplace({&p.of, &p.states});
    if (fresh) at->second = precomputed(p.of, p.states, static_cast<lamina::isa>(made.set), o.optimize);
    const program_entry entry{p.name, *at->second.program, at->second.states, p.inputs};
    layout_of(made.entries.emplace_back(), weights, kernels, entry, o, made.set).run(made.entries.size() == 1);
  }
  check_names(made, o);
  made.weights = weights.finish(made.checksum);
  return made;
}

}  // namespace lamina::bundle
