package dev.starling.distributed;

import dev.starling.tensor.TensorException;

/** What a member does in its group. A process declares it when it joins; {@link GroupConfig#role}. */
public sealed interface Role {
    /** Computes gradients. The default. */
    record Worker() implements Role { }

    /**
     * Keeps parameters for the workers.
     *
     * @param number among the servers, from 0; a process that replaces a lost server has the same number
     */
    record Server(int number) implements Role {
        /** Checks that the number is not negative. */
        public Server {
            if (number < 0) {
                throw TensorException.argument("role", "the number of a server must be >= 0, got " + number,
                        "number servers from 0");
            }
        }
    }
}
