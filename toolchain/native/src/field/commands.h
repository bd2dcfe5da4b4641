// `edge-rt install`, `trust`, `status`, `rollback`, `prune` and `recover`.
#pragma once

#include "options.h"

namespace edge::field {

int InstallCommand(const Options& options);
int TrustCommand(const Options& options);
int StatusCommand(const Options& options);
int RollBackCommand(const Options& options);
int PruneCommand(const Options& options);
int RecoverCommand(const Options& options);

}  // namespace edge::field
