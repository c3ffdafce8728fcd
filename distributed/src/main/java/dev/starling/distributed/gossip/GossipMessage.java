package dev.starling.distributed.gossip;

import dev.starling.distributed.encoding.RecordCodec;
import dev.starling.distributed.group.Channels;
import dev.starling.nn.train.RunSettings;
import java.util.Map;
import org.agrona.MutableDirectBuffer;

/** The messages of workers to each other. */
sealed interface GossipMessage {
    /** The channel of these messages. */
    int CHANNEL = Channels.FIRST_OF_STRATEGIES + 1;

    RecordCodec<GossipMessage> CODEC = RecordCodec.of(GossipMessage.class);

    /**
     * The first message of a worker to each peer: the memory slot for the peer's weights, and its layout.
     *
     * @param firstId id of the member whose weights the sender waits for, or {@link #NONE}
     * @param settings checksum of the sender's settings
     * @param key of the memory into which the receiver may write weights
     * @param layout checksum of the layout of that memory
     * @param text of the layout, or its beginning
     */
    record Announcement(long firstId, long settings, byte[] key, long layout, String text) implements GossipMessage {
        /** In place of a member's id: the sender has weights already. */
        static final long NONE = -1;
    }

    /** The settings of the sender, whose checksum is not that of the receiver's. */
    record Settings(RunSettings settings) implements GossipMessage { }

    /** The receiver may write into the sender's memory again. */
    record Credit() implements GossipMessage { }

    /** The sender has written weights into the receiver's memory. */
    sealed interface Weights extends GossipMessage { }

    /** Weights to be mixed in, and the mass that travels with them. */
    record Update(double mass) implements Weights {
        public Update {
            if (!(mass >= 0 && mass < Double.POSITIVE_INFINITY)) {
                throw new IllegalArgumentException("a mass must be finite and not negative, got " + mass);
            }
        }
    }

    /** Weights with which the receiver begins, and the notes of its position in the run. */
    record Initial(Map<String, String> notes) implements Weights { }

    /** The final weights of the sender, and the number of examples that they count for in the mean. */
    record Final(long examples) implements Weights {
        public Final {
            if (examples < 1) {
                throw new IllegalArgumentException("final weights must count for 1 example or more, got " + examples);
            }
        }
    }

    /** The sender has taken its last step. */
    record Finished() implements GossipMessage { }

    /** Writes a message with the number of its channel; returns its length. */
    static int write(MutableDirectBuffer out, GossipMessage message) {
        byte[] body = CODEC.encode(message);
        out.putInt(0, CHANNEL, Channels.ORDER);
        out.putBytes(Channels.HEADER, body);
        return Channels.HEADER + body.length;
    }
}
