-- All instants and spans of time are in microseconds, instants since 1970. A
-- key is known by half of its SHA-256, so it may be of any length and hold any
-- bytes.

create table paceline_limiter.meta (
  version integer not null, -- of this schema
  lossy   boolean not null default false -- somebody's grants are not flushed before they are answered
);
insert into paceline_limiter.meta (version) values (0);

-- The witness is lost with the latest commits: PostgreSQL empties unlogged tables
-- when it recovers from a crash and where a replica takes over. since is when
-- that was noticed, 0 where nothing was ever lost.
create unlogged table paceline_limiter.witness (
  one   boolean primary key default true check (one),
  since bigint not null
);
insert into paceline_limiter.witness (since) values (0);

-- A span is a rolling log of what a bucket has counted over one length of time.
-- Up to 64 grants are entries of their own; beyond, those that share a 63rd of
-- the span are one, dated at its end.
create type paceline_limiter.span as (
  per      bigint,
  asked    bigint,   -- when a grant last named it
  quantum  bigint,   -- 0 while grants are entries of their own
  gone     bigint,   -- the total of what has left
  promised bigint,   -- the total that no crash makes us forget
  instants bigint[], -- of the entries, the oldest first
  totals   bigint[]  -- of the cost up to and including each
);

-- A bucket is all that is counted under one key. It is read and written by whoever
-- holds the advisory lock of its id.
create table paceline_limiter.bucket (
  id      uuid primary key,
  last    bigint not null,   -- the latest instant it was asked at: its clock never steps back
  idle    bigint not null,   -- when it may be forgotten, in steps of ten minutes: most updates leave the index alone
  epoch   bigint not null,   -- the witness's since that it knows of
  hold    bigint not null,   -- the longest hold of a permit that a crash could make us forget
  permits bigint[] not null, -- who holds a place, the next to lapse first
  lapses  bigint[] not null, -- and until when
  spans   paceline_limiter.span[] not null
) with (fillfactor = 50, toast_tuple_target = 8160, -- a row stays in its page, mostly
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);
create index bucket_idle on paceline_limiter.bucket (idle);

-- A share is what a permit's call counts in a bucket, where that can be settled:
-- in each window it named, and last, under per 0, in each that it did not.
create type paceline_limiter.share as (
  bucket  uuid,
  granted bigint,   -- when
  since   bigint,   -- when it first cost more; 0 where it never did
  pers    bigint[],
  calls   bigint[],
  first   bigint[], -- counted when it was granted
  later   bigint[]  -- counted since
);

create table paceline_limiter.permit (
  id      bigint primary key,
  expires bigint not null,
  places  uuid[] not null, -- the buckets it holds a place of, in order
  shares  paceline_limiter.share[] not null -- in the order of their buckets
) with (fillfactor = 70,
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
create index permit_expires on paceline_limiter.permit (expires);

create table paceline_limiter.throttle (
  id    uuid primary key,
  until bigint not null
);
create index throttle_until on paceline_limiter.throttle (until);

create table paceline_limiter.blob (
  id      uuid primary key,
  version bigint not null,
  data    bytea not null
);

create function paceline_limiter.clock() returns bigint
language sql volatile as $body$
  select (date_part('epoch', clock_timestamp()) * 1000000)::bigint
$body$;

-- live is the first entry that is still in the span.
create function paceline_limiter.live(s paceline_limiter.span, now bigint) returns integer
language plpgsql immutable as $body$
declare
  edge bigint := now - s.per;
  lo integer := 1;
  hi integer := cardinality(s.instants) + 1;
  mid integer;
begin
  if hi = 1 or s.instants[1] > edge then
    return 1; -- most often nothing has left
  end if;
  while lo < hi loop
    mid := (lo + hi) / 2;
    if s.instants[mid] > edge then hi := mid; else lo := mid + 1; end if;
  end loop;
  return lo;
end $body$;

-- expire lets go of what has been in the span for its whole length.
create function paceline_limiter.expire(s paceline_limiter.span, now bigint) returns paceline_limiter.span
language plpgsql immutable as $body$
declare
  first integer := paceline_limiter.live(s, now);
begin
  if first > 1 then
    s.gone := s.totals[first - 1];
    s.instants := s.instants[first:];
    s.totals := s.totals[first:];
  end if;
  if cardinality(s.instants) = 0 then
    s.promised := greatest(s.promised - s.gone, 0);
    s.gone := 0;
  end if;
  if cardinality(s.instants) <= 32 then
    s.quantum := 0; -- apart again, once there is room for as many
  end if;
  return s;
end $body$;

-- merge makes room: entries of one quantum become one, dated at its end. Ends lie
-- in (now - per, now + quantum), so 64 always suffice.
create function paceline_limiter.merge(s paceline_limiter.span) returns paceline_limiter.span
language plpgsql immutable as $body$
declare
  at bigint;
  kept integer := 0;
  instants bigint[] := '{}';
  totals bigint[] := '{}';
begin
  s.quantum := (s.per - 1) / 63 + 1;
  for i in 1 .. cardinality(s.instants) loop
    at := s.instants[i] + (s.quantum - s.instants[i] % s.quantum) % s.quantum;
    if kept = 0 or at > instants[kept] then
      kept := kept + 1;
      instants[kept] := at;
    end if;
    totals[kept] := s.totals[i];
  end loop;
  s.instants := instants;
  s.totals := totals;
  return s;
end $body$;

-- book counts a cost at an instant. step is by how much the total may grow before
-- it is promised anew.
create function paceline_limiter.book(s paceline_limiter.span, now bigint, cost bigint, step bigint) returns paceline_limiter.span
language plpgsql immutable as $body$
declare
  n integer;
  total bigint;
  gone bigint;
begin
  s := paceline_limiter.expire(s, now);
  n := cardinality(s.instants);
  total := case when n = 0 then s.gone else s.totals[n] end;
  cost := least(cost, 9223372036854775807 - (total - s.gone));
  if total > 4611686018427387904 then -- totals begin at 0 again before they overflow
    gone := s.gone;
    s.totals := array(select t - gone from unnest(s.totals) with ordinality u (t, i) order by i);
    s.promised := greatest(s.promised - gone, 0);
    total := total - gone;
    s.gone := 0;
  end if;
  if n = 64 and s.instants[n] < now then
    s := paceline_limiter.merge(s);
    n := cardinality(s.instants);
  end if;
  total := total + cost;
  if n > 0 and s.instants[n] >= now then -- the same instant, or the same quantum
    s.totals[n] := total;
  else
    if s.quantum > 0 then
      now := now + (s.quantum - now % s.quantum) % s.quantum;
    end if;
    s.instants := s.instants || now;
    s.totals := s.totals || total;
  end if;
  if total > s.promised then
    s.promised := case when total > 9223372036854775807 - step then total else total + step end;
  end if;
  return s;
end $body$;

-- insert_at counts a cost at an instant that others may have followed.
create function paceline_limiter.insert_at(s paceline_limiter.span, at bigint, cost bigint, now bigint) returns paceline_limiter.span
language plpgsql immutable as $body$
declare
  i integer;
  n integer;
  before bigint;
begin
  if at <= now - s.per then
    return s;
  end if;
  s := paceline_limiter.expire(s, now);
  n := cardinality(s.instants);
  if n = 0 or s.instants[n] <= at then
    return paceline_limiter.book(s, at, cost, 0);
  end if;
  cost := least(cost, 9223372036854775807 - s.totals[n]);
  i := 1;
  while s.instants[i] < at loop
    i := i + 1;
  end loop;
  if s.instants[i] > at and n < 64 and s.quantum = 0 then
    before := case when i = 1 then s.gone else s.totals[i - 1] end;
    s.instants := s.instants[:i - 1] || at || s.instants[i:];
    s.totals := s.totals[:i - 1] || before || s.totals[i:];
  end if; -- else it is part of a later one
  for k in i .. cardinality(s.totals) loop
    s.totals[k] := s.totals[k] + cost;
  end loop;
  s.promised := s.promised + cost;
  return s;
end $body$;

-- seek is which of a bucket's spans has a length, 0 where none has.
create function paceline_limiter.seek(spans paceline_limiter.span[], per bigint) returns integer
language plpgsql immutable as $body$
begin
  for i in 1 .. cardinality(spans) loop
    if (spans[i]).per = per then
      return i;
    end if;
  end loop;
  return 0;
end $body$;

-- view is a span over a bucket's history: what the shortest of its spans that
-- reach back far enough holds, since it is the least coarse, or the longest.
create function paceline_limiter.view(spans paceline_limiter.span[], per bigint, now bigint) returns paceline_limiter.span
language plpgsql immutable as $body$
declare
  s paceline_limiter.span;
  p bigint;
  best bigint := 0;
  source integer := 0;
begin
  for i in 1 .. cardinality(spans) loop
    p := (spans[i]).per;
    if best = 0 or p >= per and (p < best or best < per) or p < per and p > best then
      best := p;
      source := i;
    end if;
  end loop;
  if source = 0 then
    return (per, now, 0, 0, 0, '{}', '{}')::paceline_limiter.span;
  end if;
  s := spans[source];
  s.per := per;
  s.asked := now;
  s := paceline_limiter.expire(s, now);
  s.quantum := 0;
  return s;
end $body$;

-- take_off takes a cost off what was counted from an instant on. What that was may
-- be part of younger entries by now, and what others have counted before the last
-- of it goes first: so nothing leaves earlier than it would have.
create function paceline_limiter.take_off(s paceline_limiter.span, at bigint, cost bigint, now bigint) returns paceline_limiter.span
language plpgsql immutable as $body$
declare
  before bigint;
begin
  if cost <= 0 or at <= now - s.per then
    return s; -- it has left
  end if;
  s := paceline_limiter.expire(s, now);
  before := s.gone;
  for i in 1 .. cardinality(s.instants) loop
    if s.instants[i] < at then
      before := s.totals[i];
    else
      s.totals[i] := greatest(before, s.totals[i] - cost);
    end if;
  end loop;
  s.promised := s.promised - cost; -- whatever comes instead is to be promised itself
  return s;
end $body$;

-- notice says when it was noticed that commits were lost. Whoever finds no witness
-- is the first to.
create function paceline_limiter.notice(now bigint) returns bigint
language plpgsql volatile as $body$
declare
  lost bigint;
begin
  select w.since into lost from paceline_limiter.witness w;
  if lost is null then
    insert into paceline_limiter.witness (since)
      select case when m.lossy then now else 0 end from paceline_limiter.meta m on conflict do nothing;
    select w.since into lost from paceline_limiter.witness w;
  end if;
  perform set_config('paceline.lost', lost::text, false);
  return lost;
end $body$;

-- recover counts what was promised to a bucket as granted when the loss was
-- noticed: it was no later.
create function paceline_limiter.recover(b paceline_limiter.bucket, lost bigint) returns paceline_limiter.bucket
language plpgsql immutable as $body$
declare
  s paceline_limiter.span;
  total bigint;
begin
  for k in 1 .. cardinality(b.spans) loop
    s := b.spans[k];
    total := case when cardinality(s.totals) = 0 then s.gone else s.totals[cardinality(s.totals)] end;
    if s.promised > total then
      b.spans[k] := paceline_limiter.book(s, lost, s.promised - total, 0);
    end if;
  end loop;
  b.epoch := lost;
  return b;
end $body$;

-- load locks buckets, in the order given, and then reads them: statements later
-- than the locks see what earlier holders have committed.
create type paceline_limiter.loaded as (
  now     bigint,
  lost    bigint, -- the witness's since
  buckets paceline_limiter.bucket[]
);

create function paceline_limiter.load(ids uuid[]) returns paceline_limiter.loaded
language plpgsql volatile as $body$
declare
  l paceline_limiter.loaded;
  b paceline_limiter.bucket;
  locked boolean;
  at bigint;
begin
  for i in 1 .. cardinality(ids) loop
    locked := pg_advisory_xact_lock(uuid_hash_extended(ids[i], 0)) is null;
  end loop;
  at := paceline_limiter.clock();
  -- A session that knows has not seen a crash since: it would not have survived.
  l.lost := nullif(current_setting('paceline.lost', true), '')::bigint;
  if l.lost is null then
    l.lost := paceline_limiter.notice(at);
  end if;
  for i in 1 .. cardinality(ids) loop
    select * into b from paceline_limiter.bucket where id = ids[i];
    if b.id is null then
      b := (ids[i], 0, 0, l.lost, 0, '{}', '{}', '{}')::paceline_limiter.bucket;
    else
      if b.epoch <> l.lost then
        b := paceline_limiter.recover(b, l.lost);
      end if;
      at := greatest(at, b.last);
    end if;
    l.buckets[i] := b;
  end loop;
  l.now := at;
  return l;
end $body$;

-- store writes a bucket that load has read.
create function paceline_limiter.store(b paceline_limiter.bucket, now bigint) returns void
language plpgsql volatile as $body$
declare
  s paceline_limiter.span;
  n integer;
  empty bigint := now;
begin
  for k in 1 .. cardinality(b.spans) loop
    s := b.spans[k];
    n := cardinality(s.instants);
    if n > 0 then
      empty := greatest(empty, s.instants[n] + s.per);
    end if;
  end loop;
  n := cardinality(b.lapses);
  if n > 0 then
    empty := greatest(empty, b.lapses[n]);
  end if;
  if b.last = 0 then
    insert into paceline_limiter.bucket values
      (b.id, now, (empty / 600000000 + 1) * 600000000, b.epoch, b.hold, b.permits, b.lapses, b.spans);
  else
    update paceline_limiter.bucket u set
      last = now, idle = (empty / 600000000 + 1) * 600000000,
      epoch = b.epoch, hold = b.hold, permits = b.permits, lapses = b.lapses, spans = b.spans
      where u.id = b.id;
  end if;
end $body$;

-- commit says how the transaction at hand is to be committed: flushed before it is
-- answered or not. A server that does more by default keeps doing so.
create function paceline_limiter.commit(flushed boolean) returns void
language plpgsql volatile as $body$
declare
  setting text;
begin
  if not flushed then
    setting := set_config('synchronous_commit', 'off', true);
  elsif current_setting('synchronous_commit') = 'off' then
    setting := set_config('synchronous_commit', 'on', true);
  end if;
end $body$;

-- hold gives a permit a place.
create function paceline_limiter.hold(b paceline_limiter.bucket, permit bigint, lapse bigint) returns paceline_limiter.bucket
language plpgsql immutable as $body$
declare
  n integer := cardinality(b.lapses);
begin
  while n > 0 and b.lapses[n] > lapse loop
    n := n - 1;
  end loop;
  b.permits := b.permits[:n] || permit || b.permits[n + 1:];
  b.lapses := b.lapses[:n] || lapse || b.lapses[n + 1:];
  return b;
end $body$;

-- let_go takes a permit's place back, where it has one.
create function paceline_limiter.let_go(b paceline_limiter.bucket, permit bigint) returns paceline_limiter.bucket
language plpgsql immutable as $body$
declare
  i integer := array_position(b.permits, permit);
begin
  if i is not null then
    b.permits := b.permits[:i - 1] || b.permits[i + 1:];
    b.lapses := b.lapses[:i - 1] || b.lapses[i + 1:];
  end if;
  return b;
end $body$;

-- A charge is what a grant makes of a bucket, or why there is none.
create type paceline_limiter.charge as (
  room    bigint,                  -- for how many there is room
  free    bigint,                  -- if for none: from when on there is
  cause   bigint,                  -- and what lacks, 1 for a rate or 2 for places
  bucket  paceline_limiter.bucket, -- with all of them counted, if there is room
  share   paceline_limiter.share,  -- of each; of no bucket where nothing can be settled
  held    boolean,                 -- whether each holds a place
  flushed boolean                  -- whether this goes beyond what was promised
);

-- charge counts equal calls in a bucket, if there is room: in the windows that they
-- name and, at the most that they count in any of those, in the others, which are
-- views of the same history. limits are those of acquire, and those with this
-- number are the bucket's.
--
-- After a loss, windows of up to two minutes count as full for one span: longer
-- ones count what was promised. Places count as taken for as long as somebody
-- forgotten may hold them. Whoever lacks one is to ask again after 100 ms, since it
-- may have been released.
create function paceline_limiter.charge(b paceline_limiter.bucket, number bigint, limits bigint[], wanted bigint,
  hold bigint, permit bigint, now bigint, lost bigint, durable boolean) returns paceline_limiter.charge
language plpgsql immutable as $body$
declare
  c paceline_limiter.charge;
  s paceline_limiter.span;
  most bigint := 0;
  longest bigint := 0;
  stale boolean := false;
  settles boolean := false;
  calls bigint;
  cost bigint;
  total bigint;
  used bigint;
  leave bigint;
  free bigint;
  step bigint;
  n integer;
  i integer;
  named integer := 0;
begin
  c.room := wanted;
  c.free := now;
  c.held := false;
  c.flushed := durable;
  for q in 0 .. cardinality(limits) - 6 by 6 loop
    continue when limits[q + 1] <> number;
    if limits[q + 2] > 0 then
      named := named + 1;
      most := greatest(most, limits[q + 5]);
      settles := settles or limits[q + 6] = 1;
      if paceline_limiter.seek(b.spans, limits[q + 3]) = 0 then
        b.spans := b.spans || paceline_limiter.view(b.spans, limits[q + 3], now);
      end if;
    end if;
    if limits[q + 4] > 0 then
      c.held := true;
      n := cardinality(b.lapses);
      i := 1;
      while i <= n and b.lapses[i] <= now loop
        i := i + 1;
      end loop;
      leave := n - i + 1;
      free := lost + greatest(b.hold, hold);
      if leave >= limits[q + 4] then
        free := greatest(free, b.lapses[i]);
      end if;
      if free > now then
        c.room := 0;
        c.free := greatest(c.free, least(free, now + 100000));
        c.cause := 2;
      else
        c.room := least(c.room, limits[q + 4] - leave);
      end if;
    end if;
  end loop;

  if most > 0 then
    for k in 1 .. cardinality(b.spans) loop
      s := b.spans[k];
      n := cardinality(s.instants);
      if n > 0 and s.instants[1] <= now - s.per then
        s := paceline_limiter.expire(s, now);
        n := cardinality(s.instants);
      end if;
      total := case when n = 0 then s.gone else s.totals[n] end;
      used := total - s.gone;
      longest := greatest(longest, s.per);
      calls := 0;
      for q in 0 .. cardinality(limits) - 6 by 6 loop
        if limits[q + 3] = s.per and limits[q + 1] = number and limits[q + 2] > 0 then
          calls := limits[q + 2];
          cost := limits[q + 5];
        end if;
      end loop;

      if calls = 0 then
        cost := most;
        step := used / 64;
        stale := stale or now - s.asked - s.per > s.per;
      else
        s.asked := now;
        step := calls / 64;
        leave := used - (calls - cost); -- so much has to
        free := case when s.per <= 120000000 then lost + s.per else 0 end;
        if leave > 0 then
          i := 1;
          while s.totals[i] - s.gone < leave loop
            i := i + 1;
          end loop;
          free := greatest(free, s.instants[i] + s.per);
        end if;
        if free > now then
          c.room := 0;
          if free > c.free then
            c.free := free;
            c.cause := 1;
          end if;
        else
          c.room := least(c.room, (calls - used) / cost);
        end if;
      end if;

      if c.room >= wanted then
        cost := least(cost * wanted, 9223372036854775807 - used);
        if s.per > 120000000 and used + cost > s.promised - s.gone then
          c.flushed := true;
        end if;
        if n < 64 and s.quantum = 0 and total < 4611686018427387904 and (n = 0 or s.instants[n] < now) then
          -- The usual case of book.
          total := total + cost;
          s.instants := s.instants || now;
          s.totals := s.totals || total;
          if total > s.promised then
            s.promised := total + case when durable then 0 else greatest(cost, step) end;
          end if;
        else
          s := paceline_limiter.book(s, now, cost, case when durable then 0 else greatest(cost, step) end);
        end if;
        b.spans[k] := s;
      end if;
    end loop;
  end if;
  if c.room < wanted then
    return c;
  end if;

  if stale or cardinality(b.spans) > greatest(16, named) then
    -- A span that nobody asked for in twice its length can go if a longer one stays.
    b.spans := array(select u from unnest(b.spans) u
      where u.per = longest or now - u.asked - u.per <= u.per
      order by u.per = longest desc, u.asked desc limit greatest(16, named + 1));
  end if;
  if c.held then
    i := 1;
    while b.lapses[i] <= now loop
      i := i + 1;
    end loop;
    if i > 1 then
      b.permits := b.permits[i:];
      b.lapses := b.lapses[i:];
    end if;
    for k in 0 .. wanted - 1 loop
      n := cardinality(b.lapses);
      if n = 0 or b.lapses[n] <= now + hold then
        b.permits := b.permits || permit + k;
        b.lapses := b.lapses || now + hold;
      else
        b := paceline_limiter.hold(b, permit + k, now + hold);
      end if;
    end loop;
    if not durable then
      b.hold := greatest(b.hold, hold);
    end if;
  end if;
  if settles and hold > 0 then
    c.share := paceline_limiter.share_of(b.id, number, limits, now);
  end if;
  c.bucket := b;
  return c;
end $body$;

-- share_of is what a call counts that has just been granted.
create function paceline_limiter.share_of(bucket uuid, number bigint, limits bigint[], now bigint) returns paceline_limiter.share
language plpgsql immutable as $body$
declare
  s paceline_limiter.share := (bucket, now, 0, '{}', '{}', '{}', '{}');
  calls bigint := 0;
  cost bigint := 0;
begin
  for q in 0 .. cardinality(limits) - 6 by 6 loop
    if limits[q + 1] = number and limits[q + 2] > 0 then
      s.pers := s.pers || limits[q + 3];
      s.calls := s.calls || limits[q + 2];
      s.first := s.first || limits[q + 5];
      calls := greatest(calls, limits[q + 2]);
      cost := greatest(cost, limits[q + 5]);
    end if;
  end loop;
  s.pers := s.pers || 0::bigint;
  s.calls := s.calls || calls;
  s.first := s.first || cost;
  s.later := array_fill(0::bigint, array[cardinality(s.pers)]);
  return s;
end $body$;

-- acquire asks for calls, in order. It is given the buckets that are named, in
-- order, the callers, and the requests, each a run of equal ones:
--
--	caller, how many, hold, the first one's permit (the next ones' follow), how many limits, and of each limit
--	bucket, calls, per, places, cost, 1 where the cost is its own
--
-- where callers and buckets are numbers from 1. It answers with its clock, when a
-- loss was noticed, and for each run
--
--	how many are granted, how many causes refuse the rest, and of each cause
--	bucket (0 is the throttle), until when, 1 for the rate or 2 for the places
--
-- A run of a caller of whom one was refused before is not judged: it has none
-- granted and no cause.
create function paceline_limiter.acquire(ids uuid[], callers uuid[], asks bigint[], durable boolean) returns bigint[]
language plpgsql volatile as $body$
declare
  l paceline_limiter.loaded := paceline_limiter.load(ids);
  buckets paceline_limiter.bucket[] := l.buckets;
  charged paceline_limiter.bucket[]; -- the same, as a grant would leave them
  answer bigint[] := array[l.now, l.lost];
  written boolean[];
  flushed boolean := durable;
  refused bigint[];

  at integer := 0; -- so much of the asks has been read
  limits bigint[];
  wanted bigint;
  permit bigint;
  closed bigint; -- until when the caller is

  try bigint; -- for so many at once
  room bigint;
  granted bigint;
  causes bigint[];

  c paceline_limiter.charge;
  sure boolean;
  held_in uuid[];
  shares paceline_limiter.share[];
begin
  while at < cardinality(asks) loop
    limits := asks[at + 6:at + 5 + 6 * asks[at + 5]];
    wanted := asks[at + 2];
    permit := asks[at + 4];
    granted := 0;
    causes := '{}';
    if asks[at + 1] = any(refused) then
      wanted := 0;
    else
      select t.until into closed from paceline_limiter.throttle t where t.id = callers[asks[at + 1]];
    end if;
    try := wanted;
    while wanted > 0 loop
      room := try;
      charged := buckets;
      sure := false;
      held_in := '{}';
      shares := '{}';
      if closed > l.now then
        room := 0;
        causes := array[0, closed, 0];
      end if;
      for i in 1 .. cardinality(ids) loop
        for q in 0 .. cardinality(limits) - 6 by 6 loop
          continue when limits[q + 1] <> i;
          c := paceline_limiter.charge(buckets[i], i, limits, try, asks[at + 3], permit, l.now, l.lost, durable);
          if c.room < try then
            room := least(room, c.room);
            if c.room = 0 then
              causes := causes || array[i, c.free, c.cause];
            end if;
          else
            charged[i] := c.bucket;
            sure := sure or c.flushed;
            if c.held then
              held_in := held_in || ids[i];
            end if;
            if (c.share).bucket is not null then
              shares := shares || c.share;
            end if;
          end if;
          exit;
        end loop;
      end loop;
      if room = 0 then
        refused := refused || asks[at + 1];
        exit;
      end if;
      if room = try then
        for q in 0 .. cardinality(limits) - 6 by 6 loop
          written[limits[q + 1]] := true;
        end loop;
        if asks[at + 3] > 0 then
          insert into paceline_limiter.permit
            select permit + i, l.now + asks[at + 3], held_in, shares from generate_series(0, room - 1) i;
        end if;
        buckets := charged;
        flushed := flushed or sure;
        granted := granted + room;
        permit := permit + room;
        wanted := wanted - room;
        room := wanted;
      end if;
      try := room;
    end loop;
    answer := answer || granted || (cardinality(causes) / 3)::bigint || causes;
    at := at + 5 + cardinality(limits);
  end loop;

  if written is not null then
    for i in 1 .. cardinality(ids) loop
      if written[i] then
        sure := paceline_limiter.store(buckets[i], l.now) is null;
      end if;
    end loop;
    sure := paceline_limiter.commit(flushed) is null;
  end if;
  return answer;
end $body$;

-- release gives back the places of a permit. Where its buckets are never changes,
-- so that can be read before they are locked.
create function paceline_limiter.release(released bigint) returns void
language plpgsql volatile as $body$
declare
  held_in uuid[];
  l paceline_limiter.loaded;
begin
  select p.places into held_in from paceline_limiter.permit p where p.id = released;
  if held_in is null then
    return;
  end if;
  l := paceline_limiter.load(held_in);
  delete from paceline_limiter.permit p where p.id = released;
  if found then
    for i in 1 .. cardinality(held_in) loop
      perform paceline_limiter.store(paceline_limiter.let_go(l.buckets[i], released), l.now);
    end loop;
    perform paceline_limiter.commit(false);
  end if;
end $body$;

-- abandon gives back the places of permits that nobody was told of, once whoever
-- may be about to grant them has done so.
create function paceline_limiter.abandon(ids uuid[], permits bigint[]) returns void
language plpgsql volatile as $body$
declare
  l paceline_limiter.loaded := paceline_limiter.load(ids);
begin
  for i in 1 .. cardinality(permits) loop
    perform paceline_limiter.release(permits[i]);
  end loop;
end $body$;

-- renew makes permits last for a hold from now.
create function paceline_limiter.renew(renewed bigint[], hold bigint, durable boolean) returns void
language plpgsql volatile as $body$
declare
  ids uuid[];
  l paceline_limiter.loaded;
  buckets paceline_limiter.bucket[];
  b paceline_limiter.bucket;
  p record;
begin
  select array(select distinct u.id from paceline_limiter.permit q, unnest(q.places) u (id)
    where q.id = any(renewed) order by u.id) into ids;
  l := paceline_limiter.load(ids);
  buckets := l.buckets;
  for p in
    select * from paceline_limiter.permit q where q.id = any(renewed) and q.expires > l.now order by q.id for update
  loop
    for i in 1 .. cardinality(ids) loop
      if ids[i] = any(p.places) then
        b := paceline_limiter.hold(paceline_limiter.let_go(buckets[i], p.id), p.id, l.now + hold);
        if not durable then
          b.hold := greatest(b.hold, hold);
        end if;
        buckets[i] := b;
      end if;
    end loop;
    update paceline_limiter.permit q set expires = l.now + hold where q.id = p.id;
  end loop;
  if found then
    for i in 1 .. cardinality(ids) loop
      perform paceline_limiter.store(buckets[i], l.now);
    end loop;
    perform paceline_limiter.commit(durable);
  end if;
end $body$;

-- settle makes what a permit's call counts in some buckets a total each.
create function paceline_limiter.settle(settled bigint, ids uuid[], costs bigint[], durable boolean) returns void
language plpgsql volatile as $body$
declare
  locks uuid[];
  kept paceline_limiter.share[];
  l paceline_limiter.loaded;
  b paceline_limiter.bucket;
  s paceline_limiter.span;
  sh paceline_limiter.share;
  more bigint;
  first bigint;
  total bigint;
  t integer;
  flushed boolean := durable;
begin
  select array(select u.bucket from unnest(p.shares) u where u.bucket = any(ids) order by u.bucket) into locks
    from paceline_limiter.permit p where p.id = settled;
  if locks is null or locks = '{}' then
    return;
  end if;
  l := paceline_limiter.load(locks);
  select p.shares into kept from paceline_limiter.permit p where p.id = settled and p.expires > l.now for update;
  if kept is null then
    return;
  end if;
  for i in 1 .. cardinality(kept) loop
    sh := kept[i];
    continue when sh.bucket <> all(locks);
    b := l.buckets[array_position(locks, sh.bucket)];
    total := costs[array_position(ids, sh.bucket)];
    for t in 1 .. cardinality(sh.pers) - 1 loop
      if least(total, sh.calls[t]) > sh.first[t] + sh.later[t] and paceline_limiter.seek(b.spans, sh.pers[t]) = 0 then
        b.spans := b.spans || paceline_limiter.view(b.spans, sh.pers[t], l.now); -- it was empty, and forgotten
      end if;
    end loop;
    for k in 1 .. cardinality(b.spans) loop
      s := b.spans[k];
      t := coalesce(array_position(sh.pers, s.per), cardinality(sh.pers));
      more := least(total, sh.calls[t]) - sh.first[t] - sh.later[t];
      if more > 0 then
        flushed := flushed or s.per > 120000000 and
          case when cardinality(s.totals) = 0 then s.gone else s.totals[cardinality(s.totals)] end > s.promised - more;
        s := paceline_limiter.book(s, l.now, more, case when durable then 0 else more end);
      else
        first := least(-more, sh.first[t]);
        s := paceline_limiter.take_off(s, sh.granted, first, l.now);
        s := paceline_limiter.take_off(s, sh.since, -more - first, l.now);
      end if;
      b.spans[k] := s;
    end loop;
    for t in 1 .. cardinality(sh.pers) loop
      more := least(total, sh.calls[t]) - sh.first[t] - sh.later[t];
      if more > 0 then
        sh.later[t] := sh.later[t] + more;
        if sh.since = 0 then
          sh.since := l.now;
        end if;
      else
        first := least(-more, sh.first[t]);
        sh.first[t] := sh.first[t] - first;
        sh.later[t] := sh.later[t] - (-more - first);
      end if;
    end loop;
    kept[i] := sh;
    perform paceline_limiter.store(b, l.now);
  end loop;
  update paceline_limiter.permit p set shares = kept where p.id = settled;
  perform paceline_limiter.commit(flushed);
end $body$;

-- seed counts a call that was granted so long ago. limits are those of acquire.
create function paceline_limiter.seed(ids uuid[], limits bigint[], ago bigint) returns void
language plpgsql volatile as $body$
declare
  l paceline_limiter.loaded := paceline_limiter.load(ids);
  b paceline_limiter.bucket;
  s paceline_limiter.span;
  at bigint := l.now - ago;
  cost bigint;
  most bigint;
begin
  for i in 1 .. cardinality(ids) loop
    b := l.buckets[i];
    most := 0;
    for q in 0 .. cardinality(limits) - 6 by 6 loop
      if limits[q + 1] = i and limits[q + 2] > 0 then
        most := greatest(most, limits[q + 5]);
        if paceline_limiter.seek(b.spans, limits[q + 3]) = 0 then
          b.spans := b.spans || paceline_limiter.view(b.spans, limits[q + 3], l.now);
        end if;
      end if;
    end loop;
    continue when most = 0;
    for k in 1 .. cardinality(b.spans) loop
      s := b.spans[k];
      cost := most;
      for q in 0 .. cardinality(limits) - 6 by 6 loop
        if limits[q + 1] = i and limits[q + 3] = s.per then
          cost := limits[q + 5];
        end if;
      end loop;
      b.spans[k] := paceline_limiter.insert_at(s, at, cost, l.now);
    end loop;
    perform paceline_limiter.store(b, l.now);
  end loop;
  perform paceline_limiter.commit(true);
end $body$;

-- peek says of each limit what it has counted and how many places are held, after
-- its clock and until when the caller is closed. It writes nothing and waits for
-- nobody.
create function paceline_limiter.peek(ids uuid[], caller uuid, limits bigint[]) returns bigint[]
language plpgsql stable as $body$
declare
  now bigint := paceline_limiter.clock();
  lost bigint := (select w.since from paceline_limiter.witness w);
  answer bigint[];
  b paceline_limiter.bucket;
  s paceline_limiter.span;
begin
  select array[greatest(now, max(u.last)), coalesce((select t.until from paceline_limiter.throttle t where t.id = caller), 0)]
    into answer from paceline_limiter.bucket u where u.id = any(ids);
  now := answer[1];
  for q in 0 .. cardinality(limits) - 6 by 6 loop
    select * into b from paceline_limiter.bucket u where u.id = ids[limits[q + 1]];
    if b.id is null then
      answer := answer || 0::bigint || 0::bigint;
      continue;
    end if;
    if b.epoch <> lost then
      b := paceline_limiter.recover(b, lost);
    end if;
    s := paceline_limiter.view(b.spans, limits[q + 3], now);
    answer := answer
      || case when limits[q + 2] = 0 or cardinality(s.totals) = 0 then 0 else s.totals[cardinality(s.totals)] - s.gone end
      || case when limits[q + 4] = 0 then 0 else (select count(*) from unnest(b.lapses) u where u > now) end;
  end loop;
  return answer;
end $body$;

-- close closes a caller's key for so long from now.
create function paceline_limiter.close(caller uuid, span bigint) returns void
language sql volatile as $body$
  select paceline_limiter.commit(true);
  insert into paceline_limiter.throttle as t values (caller, paceline_limiter.clock() + span)
    on conflict (id) do update set until = excluded.until where t.until < excluded.until;
$body$;

-- open ends the throttle of a caller's key.
create function paceline_limiter.open(caller uuid) returns void
language sql volatile as $body$
  delete from paceline_limiter.throttle t where t.id = caller;
$body$;

-- sweep forgets what counts no more, a limited number of rows at a time.
create function paceline_limiter.sweep(most integer) returns void
language plpgsql volatile as $body$
declare
  now bigint := paceline_limiter.clock();
  candidate uuid;
begin
  perform paceline_limiter.commit(false);
  delete from paceline_limiter.permit where id = any(array(
    select p.id from paceline_limiter.permit p where p.expires <= now order by p.expires limit most for update skip locked));
  delete from paceline_limiter.throttle where id = any(array(
    select t.id from paceline_limiter.throttle t where t.until <= now order by t.until limit most for update skip locked));
  for candidate in
    select b.id from paceline_limiter.bucket b where b.idle <= now order by b.idle limit most
  loop
    if pg_try_advisory_xact_lock(uuid_hash_extended(candidate, 0)) then
      delete from paceline_limiter.bucket b where b.id = candidate and b.idle <= now;
    end if;
  end loop;
end $body$;

-- replace stores data in place of a version, 0 where there is none, and says
-- whether that is what was there.
create function paceline_limiter.replace(blob uuid, replaced bigint, data bytea) returns boolean
language plpgsql volatile as $body$
begin
  perform paceline_limiter.commit(false);
  if replaced = 0 then
    insert into paceline_limiter.blob values (blob, 1, data) on conflict do nothing;
  else
    update paceline_limiter.blob b set version = replaced + 1, data = replace.data where b.id = blob and b.version = replaced;
  end if;
  return found;
end $body$;
