package dev.starling.autograd;

import java.util.Arrays;

/** Maps tensor ids to variable numbers by open addressing. It allocates only while it grows. */
final class VariableMap {
    private long[] keys = new long[128];
    private int[] values = new int[128];
    private int size;

    /** Returns the variable of the tensor with this id, or -1 if there is none. */
    int get(long id) {
        long key = id + 1;
        int mask = keys.length - 1;
        for (int i = slot(key, mask);; i = i + 1 & mask) {
            if (keys[i] == key) {
                return values[i];
            }
            if (keys[i] == 0) {
                return -1;
            }
        }
    }

    void put(long id, int variable) {
        if (size * 2 >= keys.length) {
            grow();
        }
        insert(id + 1, variable);
    }

    private void insert(long key, int variable) {
        int mask = keys.length - 1;
        int i = slot(key, mask);
        while (keys[i] != 0 && keys[i] != key) {
            i = i + 1 & mask;
        }
        size += keys[i] == 0 ? 1 : 0;
        keys[i] = key;
        values[i] = variable;
    }

    private void grow() {
        long[] oldKeys = keys;
        int[] oldValues = values;
        keys = new long[oldKeys.length * 2];
        values = new int[oldKeys.length * 2];
        size = 0;
        for (int i = 0; i < oldKeys.length; i++) {
            if (oldKeys[i] != 0) {
                insert(oldKeys[i], oldValues[i]);
            }
        }
    }

    void clear() {
        Arrays.fill(keys, 0);
        size = 0;
    }

    private static int slot(long key, int mask) {
        return (int) (key * 0x9E3779B97F4A7C15L >>> 40) & mask;
    }
}
