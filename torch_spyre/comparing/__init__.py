"""Where error enters: a model on the card beside the same model in float32 on the CPU, module by module and operator by operator."""
