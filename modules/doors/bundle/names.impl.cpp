module;
#include <dlfcn.h>
// Names that a bundle must not define, and the check that the names that it defines are distinct.
module lamina.bundle:names.impl;
import :image;
import :write;
import lamina;
import lamina.std;

namespace lamina::bundle {

namespace {

/// Whether `one` is in a space-separated list of words.
bool among(std::string_view list, std::string_view one) {
  for (std::size_t at = 0; (at = list.find(one, at)) != list.npos; ++at)
    if ((at == 0 || list[at - 1] == ' ') && (at + one.size() == list.size() || list[at + one.size()] == ' '))
      return true;
  return false;
}

constexpr std::string_view keywords =
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class "
    "co_await co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype "
    "default delete do double dynamic_cast else enum explicit export extern false float for friend goto if import "
    "inline int long module mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected "
    "public register reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast "
    "struct switch template this thread_local throw true try typedef typeid typename typeof typeof_unqual union "
    "unsigned using virtual void volatile wchar_t while xor xor_eq";
// Macros and types of the usual headers, and predefined macros.
constexpr std::string_view of_headers =
    "CHAR_BIT EOF FILE I INFINITY NAN NULL assert bool complex div_t double_t errno float_t fpos_t fpclassify i386 "
    "imaginary isfinite isgreater isgreaterequal isinf isless islessequal islessgreater isnan isnormal isunordered "
    "jmp_buf ldiv_t linux lldiv_t max_align_t mbstate_t noreturn nullptr_t offsetof ptrdiff_t setjmp sig_atomic_t "
    "signbit size_t ssize_t std time_t unix va_arg va_copy va_end va_list va_start wctrans_t wctype_t wint_t";
// Arguments and local variables of the generated functions, which call entries by name, and the macros around them.
constexpr std::string_view inside = "ADDRESS activations constant_weights mutable_weights scratch status wrong";

/// Integer types and macros of <stdint.h>, such as uint_fast16_t and UINT_FAST16_MAX.
bool is_whole_number(std::string_view s) {
  if (s.starts_with('u') || s.starts_with('U')) s.remove_prefix(1);
  const bool capitals = s.starts_with("INT"), small = s.starts_with("int");
  if (among("SIZE_MAX PTRDIFF_MAX PTRDIFF_MIN WCHAR_MAX WCHAR_MIN WINT_MAX WINT_MIN SIG_ATOMIC_MAX SIG_ATOMIC_MIN", s))
    return true;
  if (!capitals && !small) return false;
  s.remove_prefix(3);
  for (std::string_view form : {"_least", "_fast", "_LEAST", "_FAST"})
    if (s.starts_with(form)) s.remove_prefix(form.size());
  const auto width = std::min(s.find('_'), s.size());
  return among("8 16 32 64 max ptr MAX PTR", s.substr(0, width)) && among("_t _MAX _MIN _C", s.substr(width));
}

/// Whether the C library of this process has a function or variable with this name.
bool is_of_library(const std::string& name) {
  for (const char* file : {"libc.so.6", "libm.so.6"})
    if (void* library = ::dlopen(file, RTLD_LAZY | RTLD_NOLOAD)) {
      const bool there = ::dlsym(library, name.c_str()) != nullptr;
      ::dlclose(library);
      if (there) return true;
    }
  return false;
}

}  // namespace

bool is_keyword(std::string_view name) { return among(keywords, name); }

std::string_view why_reserved(const std::string& name) {
  if (is_keyword(name)) return "is a keyword of C or C++";
  if (name == "main") return "is the entry point of a program";
  if (among(of_headers, name) || is_whole_number(name)) return "is defined by C or C++ headers";
  if (name == "lamina" || upper(name).starts_with("LAMINA_")) return "is reserved by lamina";
  if (among(inside, name)) return "is used inside the generated functions";
  if (is_of_library(name)) return "is in the C library, and programs that link the bundle would call this instead";
  return {};
}

void check_names(const image& bundle, const options& o) {
  std::map<std::string, std::string> defined;  // name, and the description of its definition
  auto define = [&](std::string name, const std::string& what) {
    const auto [at, fresh] = defined.try_emplace(std::move(name), what);
    if (fresh) return;
    text t;
    t << "bundle `" << bundle.name << "`: `" << at->first << "` would be " << at->second << " and " << what
      << "; choose another name for an entry";
    lamina::detail::raise(error_kind::value, t);
  };
  for (const auto& e : bundle.entries)
    for (const auto& c : e.calls)
      if (!c.kernel.empty()) defined.try_emplace(std::string(c.kernel), "a kernel");
  for (const auto& e : bundle.entries) define(e.name, "the entry `" + e.name + "`");
  define(bundle.name + "_check_weights", "a function of the bundle");
  if (o.module_interface) define(bundle.name + "_codes", "a namespace of the bundle");
  for (const auto& e : bundle.entries) {
    const std::string of = " of the entry `" + e.name + "`", capitals = upper(e.name);
    auto own = [&](std::initializer_list<const char*> endings, const char* what) {
      for (const char* ending : endings) define(e.name + ending, what + of);
    };
    own({"_self_test"}, "a function");
    if (e.states()) own({"_reset"}, "a function");
    if (o.instrument) own({"_before", "_after"}, "a function");
    if (o.dump_tensors) own({"_tensor"}, "a function");
    if (o.module_interface) own({"_memory"}, "the namespace");
    if (o.api == api::dynamic) {
      own({"_config", "_symbols"}, "a table");
      continue;
    }
    for (auto ending : {"_CONSTANT_MEM_SIZE", "_MUTABLE_MEM_SIZE", "_ACTIVATIONS_MEM_SIZE", "_MEM_ALIGN"})
      define(capitals + ending, "a macro" + of);
    for (const auto& s : e.tensors) {
      const std::string tensor = " for `" + printable(s.name) + "`" + of;
      define(e.name + "_" + s.identifier, "the function" + tensor);
      for (auto ending : {"_OFFSET", "_ELEMENTS", "_BYTES"})
        define(capitals + "_" + upper(s.identifier) + ending, "a macro" + tensor);
    }
  }
}

}  // namespace lamina::bundle
