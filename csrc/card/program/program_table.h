// The process-wide table of loaded programs: the Python modules of this project hand programs to each other by number.
#pragma once

#include <cstdint>
#include <memory>

#include "program/program.h"

namespace openspyre {

uint64_t publish(std::shared_ptr<const PreparedProgram> program);
std::shared_ptr<const PreparedProgram> published(uint64_t id);  // InvalidArgument if there is none
void withdraw(uint64_t id);                                     // running launches keep theirs

}  // namespace openspyre
