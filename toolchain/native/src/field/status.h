// What is installed on a board, and what is going on.
#pragma once

#include <string>
#include <vector>

namespace edge::field {

// {"apps": […], "trust": …, "at_work": …}, as docs/release-format.md has it. It waits for nobody.
std::string Status(const std::string& field);

// The apps of a board: the folders that an installation made.
std::vector<std::string> Apps(const std::string& field);

}  // namespace edge::field
