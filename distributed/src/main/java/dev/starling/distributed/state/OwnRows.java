package dev.starling.distributed.state;

import dev.starling.distributed.Collectives;
import dev.starling.distributed.DistributedException;
import dev.starling.distributed.encoding.RecordCodec;
import dev.starling.nn.data.Share;
import java.util.List;

/** Lets ranks with rows of their own learn how many rows the others have. */
public final class OwnRows {
    private static final RecordCodec<Integer> SIZE = RecordCodec.of(Integer.class);

    private OwnRows() { }

    /**
     * Returns this rank's share of every batch. Collective; waits.
     *
     * @param rows number of rows of this rank
     * @throws DistributedException if no rank has any
     */
    public static Share.OwnPart share(Collectives collectives, int rank, int rows) {
        return share(rank, SIZE.exchange(collectives, rows));
    }

    /**
     * Returns a rank's share of every batch.
     *
     * @param sizes number of rows of each rank
     * @throws DistributedException if no rank has any
     */
    public static Share.OwnPart share(int rank, List<Integer> sizes) {
        if (sizes.stream().allMatch(size -> size == 0)) {
            throw new DistributedException("none of " + sizes.size() + " ranks has a row to train on; at least one "
                    + "of them needs a data set that is not empty");
        }
        return new Share.OwnPart(rank, sizes);
    }
}
