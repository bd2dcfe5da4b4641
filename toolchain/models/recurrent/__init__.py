"""LSTM, GRU and RNN: parameters of a node, its conversion to Relax, and its definition in TensorIR."""
