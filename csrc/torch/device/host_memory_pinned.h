// Host memory for asynchronous copies. The software card reads any host page, so "pinned" means: known to us, cached,
// and kept until the streams that use it are done.
#pragma once

namespace torch_spyre {

bool is_pinned(const void* pointer);

}  // namespace torch_spyre
