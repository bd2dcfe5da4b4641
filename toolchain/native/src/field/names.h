// Names that become folders on a board or decide what it may install.
#pragma once

#include <string_view>

namespace edge::field {

// Of an app, as a release may name it: its folder lies beside the board's own files.
bool IsAppName(std::string_view name);

// Of a board class; of emulated boards it ends in "+emulated".
bool IsClassName(std::string_view name);

}  // namespace edge::field
