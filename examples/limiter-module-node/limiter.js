"use strict";
// A limiter in the memory of one process: exact rolling windows, places,
// throttles. Nothing here waits, and all of an answer is worked out in one turn
// of the event loop, so no two calls are judged at the same time.
//
// Times are milliseconds since 1970, with fractions, by a clock that nobody sets.

const now = () => performance.timeOrigin + performance.now();

class Limiter {
  #buckets = new Map(); // by key
  #permits = new Map(); // by id
  #throttles = new Map(); // until when, by caller's key
  #issued = 0;
  #swept = 0;

  acquire({ key, limits, cost = 1, holdMs = 0 }) {
    const at = now();
    this.#sweep(at);
    const asks = limits.map((limit) => this.#look(limit, cost, at));
    const refused = this.#refused(key, asks, at);
    if (refused.length > 0) {
      return { granted: false, now: at, retryAt: Math.max(...refused.map((r) => r.retryAt)), refused };
    }
    return { granted: true, permit: this.#grant(asks, holdMs, at), now: at };
  }

  // A request of a caller that has been refused is refused like that again: one
  // behind another does not overtake it.
  acquireBatch({ requests }) {
    const refused = new Map();
    return requests.map((request) => {
      const answer = refused.get(request.key) ?? this.acquire(request);
      if (!answer.granted) refused.set(request.key, answer);
      return answer;
    });
  }

  release({ permit }) {
    const held = this.#permits.get(permit);
    if (!held) return;
    for (const bucket of held.places) bucket.held.delete(permit);
    this.#permits.delete(permit);
  }

  renew({ permits, holdMs }) {
    const at = now();
    for (const id of permits) {
      const permit = this.#live(id, at);
      if (!permit) continue;
      permit.expires = at + holdMs;
      for (const bucket of permit.places) bucket.held.set(id, permit.expires);
    }
  }

  // A later end wins, and one that has passed does nothing.
  throttle({ key, until }) {
    if (until > Math.max(now(), this.#throttles.get(key) ?? 0)) this.#throttles.set(key, until);
  }

  openKey({ key }) {
    this.#throttles.delete(key);
  }

  // settle has a call count what it has cost so far: more from now on, and less
  // as if it had been granted so.
  settle({ permit: id, costs }) {
    const at = now();
    const permit = this.#live(id, at);
    if (!permit) return;
    for (const { key, cost } of costs) {
      const share = permit.shares.get(key);
      if (!share) continue;
      const bucket = this.#bucket(key);
      for (const per of share.named.keys()) bucket.window(per, at);
      for (const window of bucket.windows.values()) {
        window.expire(at);
        window.settle(id, share.named.get(window.per) ?? share.other, cost, at);
      }
      for (const tally of [...share.named.values(), share.other]) tally.settle(cost);
    }
  }

  // look is what a limit has counted, with nothing changed for anybody.
  #look(limit, cost, at) {
    const bucket = this.#bucket(limit.key);
    const ask = { limit, bucket, cost: Math.min(limit.cost ?? cost, limit.calls ?? 0) };
    if (limit.calls) {
      ask.window = bucket.window(limit.perMs, at);
      ask.window.expire(at);
      ask.window.asked = at;
    }
    if (limit.concurrent) bucket.lapse(at);
    return ask;
  }

  // refused is what stands in the way: the caller's throttle, and for each bucket
  // what does so for longest.
  #refused(key, asks, at) {
    const worst = new Map();
    const until = this.#throttles.get(key);
    const throttled = until > at ? [{ key, cause: "throttle", retryAt: until }] : [];
    for (const { limit, bucket, window, cost } of asks) {
      const reasons = [];
      if (window && window.used + cost > limit.calls) {
        reasons.push({ key: limit.key, cause: "rate", retryAt: window.roomAt(limit.calls - cost) });
      }
      if (limit.concurrent && bucket.held.size >= limit.concurrent) {
        reasons.push({ key: limit.key, cause: "concurrent", retryAt: Math.min(...bucket.held.values()) });
      }
      for (const reason of reasons) {
        if (!(worst.get(limit.key)?.retryAt >= reason.retryAt)) worst.set(limit.key, reason);
      }
    }
    return [...throttled, ...worst.values()];
  }

  // grant counts a call in all windows of its buckets, and takes its places.
  #grant(asks, holdMs, at) {
    const permit = { expires: at + holdMs, places: new Set(), shares: new Map() };
    const id = `${Date.now().toString(36)}-${++this.#issued}`;
    for (const bucket of new Set(asks.map((ask) => ask.bucket))) {
      const rates = asks.filter((ask) => ask.bucket === bucket && ask.window);
      if (rates.length > 0) {
        const most = Math.max(...rates.map((ask) => ask.cost));
        for (const window of bucket.windows.values()) {
          const named = rates.find((ask) => ask.window === window);
          window.expire(at);
          window.count(at, named ? named.cost : most, id, true);
        }
        if (rates.some((ask) => ask.limit.cost)) permit.shares.set(bucket.key, share(rates, most));
      }
      if (asks.some((ask) => ask.bucket === bucket && ask.limit.concurrent)) {
        permit.places.add(bucket);
        bucket.held.set(id, permit.expires);
      }
    }
    if (holdMs === 0 || (permit.places.size === 0 && permit.shares.size === 0)) return "";
    this.#permits.set(id, permit);
    return id;
  }

  #bucket(key) {
    let bucket = this.#buckets.get(key);
    if (!bucket) this.#buckets.set(key, (bucket = new Bucket(key)));
    return bucket;
  }

  // live is a permit whose hold has not passed.
  #live(id, at) {
    const permit = this.#permits.get(id);
    return permit && permit.expires > at ? permit : undefined;
  }

  // sweep forgets, once a second, what counts nothing any more.
  #sweep(at) {
    if (at - this.#swept < 1000) return;
    this.#swept = at;
    for (const [id, permit] of this.#permits) if (permit.expires <= at) this.release({ permit: id });
    for (const [key, until] of this.#throttles) if (until <= at) this.#throttles.delete(key);
    for (const [key, bucket] of this.#buckets) if (bucket.empty(at)) this.#buckets.delete(key);
  }
}

// A Bucket is everything counted under one key: a window for each span it has
// been asked with, and who holds its places until when.
class Bucket {
  windows = new Map(); // by span
  held = new Map(); // until when, by permit

  constructor(key) {
    this.key = key;
  }

  // window is the one of a span. A new one begins with what the others know.
  window(per, at) {
    let window = this.windows.get(per);
    if (window) return window;
    const spans = [...this.windows.keys()].sort((a, b) => a - b);
    const longest = Math.max(per, ...spans);
    for (const span of spans) {
      const idle = at - this.windows.get(span).asked;
      if (span !== longest && idle > 2 * span && spans.length > 8) this.windows.delete(span);
    }
    const source = this.windows.get(spans.find((span) => span > per) ?? spans.at(-1));
    this.windows.set(per, (window = new Window(per, source, at)));
    return window;
  }

  lapse(at) {
    for (const [permit, expires] of this.held) if (expires <= at) this.held.delete(permit);
  }

  empty(at) {
    this.lapse(at);
    for (const window of this.windows.values()) {
      window.expire(at);
      if (window.used > 0) return false;
    }
    return this.held.size === 0;
  }
}

// A Window is what was counted in the last per milliseconds, oldest first.
class Window {
  used = 0;
  entries = []; // { at, cost, permit, first: counted by the grant itself }

  constructor(per, source, at) {
    this.per = per;
    this.asked = at;
    for (const e of source?.entries ?? []) if (e.at + per > at) this.count(e.at, e.cost, e.permit, e.first);
  }

  count(at, cost, permit, first) {
    this.entries.push({ at, cost, permit, first });
    this.used += cost;
  }

  // expire lets go of what has been here for the whole span.
  expire(at) {
    let gone = 0;
    while (gone < this.entries.length && this.entries[gone].at + this.per <= at) this.used -= this.entries[gone++].cost;
    if (gone > 0) this.entries.splice(0, gone);
  }

  // roomAt is when no more than so much is left.
  roomAt(most) {
    let left = this.used;
    for (const e of this.entries) {
      left -= e.cost;
      if (left <= most) return e.at + this.per;
    }
  }

  // settle makes a permit's call count total here, by what it has counted.
  settle(permit, tally, total, at) {
    const more = tally.lacks(total);
    if (more > 0) return this.count(at, more, permit, false);
    const [first, later] = tally.less(-more);
    this.#takeOff(permit, true, first);
    this.#takeOff(permit, false, later);
  }

  #takeOff(permit, first, cost) {
    for (const e of this.entries) {
      if (e.permit !== permit || e.first !== first) continue;
      const taken = Math.min(cost, e.cost);
      e.cost -= taken;
      cost -= taken;
      this.used -= taken;
    }
  }
}

// A Tally is what a call counts in a window, whatever has left it: first when it
// was granted, and later since.
class Tally {
  later = 0;

  constructor(calls, first) {
    this.calls = calls;
    this.first = first;
  }

  lacks(total) {
    return Math.min(total, this.calls) - this.first - this.later;
  }

  less(cost) {
    const first = Math.min(cost, this.first);
    return [first, cost - first];
  }

  settle(total) {
    const more = this.lacks(total);
    if (more > 0) {
      this.later += more;
      return;
    }
    const [first, later] = this.less(-more);
    this.first -= first;
    this.later -= later;
  }
}

// share is what a call counts in a bucket: in the windows that it named, and in
// each other one.
function share(rates, most) {
  const named = new Map(rates.map((ask) => [ask.limit.perMs, new Tally(ask.limit.calls, ask.cost)]));
  return { named, other: new Tally(Math.max(...rates.map((ask) => ask.limit.calls)), most) };
}

module.exports = { Limiter, now };
