#include "field/outcome.h"

#include "text.h"

namespace edge::field {

std::string Outcome::Members() const {
  const auto seconds = std::chrono::round<std::chrono::seconds>(std::chrono::steady_clock::now() - begin).count();
  return Cat({"\"end\": ", Quote(end), ", \"app\": ", JsonText(app), ", \"version\": ", JsonText(version),
              ", \"digest\": ", JsonText(digest), ", \"previous\": ", JsonText(previous), ", \"seconds\": ", seconds,
              ", \"received\": ", received, ", \"test\": ", JsonTest(test), ", \"cause\": ", JsonCause(cause),
              ", \"rollback\": ", JsonCause(rollback)});
}

}  // namespace edge::field
