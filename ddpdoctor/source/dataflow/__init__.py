"""What an expression can be: values followed through names, parameters, attributes and calls of all modules of a program."""
