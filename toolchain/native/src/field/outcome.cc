#include "field/outcome.h"

#include "field/members.h"

namespace edge::field {

std::string Outcome::Members() const {
  const auto seconds = std::chrono::round<std::chrono::seconds>(std::chrono::steady_clock::now() - begin).count();
  JsonMembers members;
  members.Text("end", end).TextOrNull("app", app).TextOrNull("version", version).TextOrNull("digest", digest);
  members.TextOrNull("previous", previous).Number("seconds", seconds).Number("received", received);
  members.TextOrNull("attempt", attempt);
  members.Value("test", JsonTest(test)).Value("cause", JsonCause(cause)).Value("rollback", JsonCause(rollback));
  return members.text();
}

}  // namespace edge::field
