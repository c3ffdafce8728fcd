package dev.starling.tensor.cpu.onednn;

import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/** The key of a compiled primitive: a list of numbers. Rewritten for each look-up and copied when it is stored. */
final class Key {
    private long[] words;
    private int length;
    private int hash;

    Key() {
        this(new long[96], 0, 0);
    }

    private Key(long[] words, int length, int hash) {
        this.words = words;
        this.length = length;
        this.hash = hash;
    }

    Key begin(int kind) {
        length = 0;
        hash = 0;
        return add(kind);
    }

    Key add(long word) {
        if (length == words.length) {
            words = Arrays.copyOf(words, 2 * length);
        }
        words[length++] = word;
        long mixed = (hash * 31L + word) * 0x9E3779B97F4A7C15L;
        hash = (int) (mixed ^ mixed >>> 32);
        return this;
    }

    Key add(boolean flag) {
        return add(flag ? 1 : 0);
    }

    Key add(long[] list) {
        for (long word : list) {
            add(word);
        }
        return this;
    }

    Key copy() {
        return new Key(Arrays.copyOf(words, length), length, hash);
    }

    @Override
    public boolean equals(@Nullable Object other) {
        return other instanceof Key key && key.hash == hash
            && Arrays.equals(key.words, 0, key.length, words, 0, length);
    }

    @Override
    public int hashCode() {
        return hash;
    }
}
