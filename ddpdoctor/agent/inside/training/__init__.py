"""What `verify-sync` follows in a rank: models, gradients, optimizers, steps and whatever writes weights between them."""
