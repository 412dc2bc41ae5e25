// Truth tables of the concepts of base/core.
import lamina;
import lamina.std;
using namespace lamina;

namespace {

struct silent {
  static consteval message_text message() { return {}; }
};
struct complaint {
  static consteval message_text message() { return message_text("no"); }
};

// accepted: a message that is empty.
static_assert(accepted<"">);
static_assert(accepted<diagnostic<silent>()>);
static_assert(!accepted<" ">);
static_assert(!accepted<"the axes differ">);
static_assert(!accepted<diagnostic<complaint>()>);

// no_error: a check that finds nothing wrong.
static_assert(no_error<silent>);
static_assert(!no_error<complaint>);

}  // namespace
