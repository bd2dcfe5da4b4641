"""LSTM, GRU and RNN: what a node computes, its Relax, and its definition in TensorIR."""
