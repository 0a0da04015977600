"""How text becomes ids: where the tokenizer comes from, and the fast way from its Rust side to Arrow columns. No torch in here."""
